package lineage;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileOutputStream;
import java.io.IOException;
import java.lang.ref.WeakReference;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PythonFuncExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;

/**
 * Lets rows of DataFrames be watched while they pass: watched_rows.py says how; compiled as PlanText.java is. It is of the driver: executors load
 * PassingRows from a jar (`jar`).
 */
public class WatchedRows {
  /** Of the thread's jobs: the number of the action that runs, and its line of the program. */
  static final String ACTION = "lineage.watched.action";

  private Watching rule;

  public WatchedRows() {}

  private WatchedRows(Watching rule) {
    this.rule = rule;
  }

  /**
   * A rule for one captured application. `folder`: by which it is watched, `board` the file in it that says what for. `reports`: the pickled
   * accumulator that calls of Python functions are reported to. `texts`: whether values may be shown, up to so many characters of a row.
   */
  public WatchedRows of(String folder, byte[] reports, boolean texts, int charactersMax) {
    return new WatchedRows(new Watching(folder, reports, texts, charactersMax));
  }

  /** The classes as a file that executors can load them from; `classes`: their code by name. */
  public void jar(Map classes, String path) throws IOException {
    JarOutputStream jar = new JarOutputStream(new FileOutputStream(path));
    try {
      Iterator all = classes.entrySet().iterator();
      while (all.hasNext()) {
        Map.Entry one = (Map.Entry) all.next();
        jar.putNextEntry(new JarEntry(((String) one.getKey()).replace('.', '/') + ".class"));
        jar.write((byte[]) one.getValue());
        jar.closeEntry();
      }
    } finally {
      jar.close();
    }
  }

  /** The rule, for `PlanRules.install`. */
  public Rule rule() {
    return rule;
  }

  /** The application has ended: plans that are optimised from now on stay what they are. */
  public void end() {
    rule.end();
  }

  /** A plan as it is without what the rule put in. */
  public LogicalPlan plain(LogicalPlan plan) {
    return Watching.plain(plan);
  }

  /** The operators that an action has, as lines of JSON: number, name, operator, line of the program. */
  public String operators(String action) {
    StringBuilder lines = new StringBuilder();
    List found = rule.of(action);
    for (int i = 0; i < found.size(); i++) {
      lines.append(i == 0 ? "" : "\n").append(((Operator) found.get(i)).line);
    }
    return lines.toString();
  }

  /** The actions, by line, that a plan was made ready to be watched for: a frame that is computed again runs the plan that it has. */
  public String actions(LogicalPlan plan) {
    return rule.actions(plan);
  }

  /** The plan that gives the rows of an operator of an action; null where nothing holds it any more. */
  public LogicalPlan plan(String action, int place) {
    return ((Operator) rule.of(action).get(place)).plan();
  }

  /** An action has been recorded: its plans are kept as long as the program keeps them. */
  public void release(String action) {
    rule.release(action);
  }

  /** An operator of a plan that ran, or a Python function that it called: rows are those of the operator, or the arguments of the function. */
  private static class Operator {
    final String line;
    private LogicalPlan plan;
    private final WeakReference running;
    private final int function;

    /** `running`: what the rule made, which is part of the plan that runs. `function`: which of its functions, or -1. */
    Operator(LogicalPlan plan, String line, LogicalPlan running, int function) {
      this.plan = plan;
      this.line = line;
      this.running = new WeakReference(running);
      this.function = function;
    }

    void release() {
      plan = null;
    }

    boolean isAmong(List nodes) {
      Object own = running.get();
      Iterator all = nodes.iterator();
      while (own != null && all.hasNext()) {
        if (all.next() == own) {
          return true;
        }
      }
      return false;
    }

    LogicalPlan plan() {
      LogicalPlan held = plan;
      if (held == null && running.get() != null) {
        held = Watching.plain((LogicalPlan) running.get());
      }
      return held == null || function < 0 ? held : TimedFunctions.arguments(held, function);
    }
  }

  private static class Watching extends Rule {
    private static final Set WATCHED =
        new HashSet(
            Arrays.asList(
                new String[] {
                  "Project", "Filter", "Aggregate", "Join", "Window", "Generate", "Union", "Sample", "MapInPandas", "MapInArrow", "PythonMapInArrow", "FlatMapGroupsInPandas", "FlatMapGroupsInArrow", "FlatMapCoGroupsInPandas", "FlatMapCoGroupsInArrow"
                }));

    /** What reads rows, and is watched where it is an output by itself. */
    private static final Set LEAVES =
        new HashSet(Arrays.asList(new String[] {"LogicalRelation", "DataSourceV2ScanRelation", "LogicalRDD", "Range", "InMemoryRelation"}));

    /** What leaves rows as they are. */
    private static final Set PASSING =
        new HashSet(
            Arrays.asList(
                new String[] {
                  "Sort", "Repartition", "RepartitionByExpression", "RebalancePartitions", "WriteFiles", "AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic", "ReturnAnswer"
                }));

    /** What says by its expressions which columns it reads. */
    private static final Set READING =
        new HashSet(Arrays.asList(new String[] {"Project", "Filter", "Aggregate", "Join", "Window", "Sort"}));

    /** What has the columns of its children, each as late as below. */
    private static final Set PASSING_COLUMNS = new HashSet(Arrays.asList(new String[] {"Filter", "Join", "Sample", "Generate", "Sort", "RepartitionByExpression", "RebalancePartitions"}));

    /** What takes whole rows, in which all columns have been computed, and is never left out as needless (as a sort may be). */
    private static final Set COMPUTING =
        new HashSet(
            Arrays.asList(
                new String[] {
                  "Window", "Repartition", "BatchEvalPython", "ArrowEvalPython", "MapInPandas", "MapInArrow", "PythonMapInArrow", "FlatMapGroupsInPandas", "FlatMapGroupsInArrow", "FlatMapCoGroupsInPandas", "FlatMapCoGroupsInArrow"
                }));

    private static final Set REWRITES =
        new HashSet(
            Arrays.asList(
                new String[] {
                  "ReplaceData", "WriteDelta", "MergeRows", "MergeIntoTable", "UpdateTable", "DeleteFromTable", "DeltaMergeInto", "DeltaUpdateTable", "DeltaDelete", "Subquery"
                }));

    private static final Set LIMITS =
        new HashSet(Arrays.asList(new String[] {"GlobalLimit", "LocalLimit", "Offset", "Tail"}));

    private static final int OPERATORS_MAX = 200;
    private static final int ACTIONS_MAX = 256;
    private static final int NODES_BYTES_MAX = 4 << 20;
    private static final String FUNCTIONS = "udf";
    private static final String ALL = String.join(",", WATCHED).toLowerCase() + "," + FUNCTIONS;
    private static final int NAME_MAX = 200;

    private final String folder;
    private final TimedFunctions functions;
    private final boolean texts;
    private final int charactersMax;
    private int count = 0;
    private boolean isFull;

    /** Of the plan at work: lines of what can't be watched. */
    private final Set unwatched = new LinkedHashSet();

    /** Of the latest actions, by number. */
    private final Map operators = new LinkedHashMap();

    private boolean ended;

    Watching(String folder, byte[] reports, boolean texts, int charactersMax) {
      this.folder = folder;
      this.functions = new TimedFunctions(folder, reports, texts, charactersMax);
      this.texts = texts;
      this.charactersMax = charactersMax;
    }

    synchronized List of(String action) {
      List found = (List) operators.get(action);
      return found == null ? new ArrayList() : new ArrayList(found);
    }

    synchronized String actions(LogicalPlan plan) {
      List nodes = new ArrayList();
      addOwn(plan, nodes);
      List found = new ArrayList();
      Iterator all = operators.keySet().iterator();
      while (all.hasNext()) {
        String action = (String) all.next();
        if (isAmong(action, nodes)) {
          found.add(action);
        }
      }
      return String.join("\n", found);
    }

    /** Whether an operator of an action is among nodes of a plan. */
    private boolean isAmong(String action, List nodes) {
      Iterator each = of(action).iterator();
      while (each.hasNext()) {
        if (((Operator) each.next()).isAmong(nodes)) {
          return true;
        }
      }
      return false;
    }

    /** Add what the rule made. */
    private static void addOwn(LogicalPlan plan, List nodes) {
      if (isOwn(plan)) {
        nodes.add(plan);
      }
      scala.collection.Iterator children = plan.children().iterator();
      while (children.hasNext()) {
        addOwn((LogicalPlan) children.next(), nodes);
      }
    }

    synchronized void release(String action) {
      List found = of(action);
      for (int i = 0; i < found.size(); i++) {
        ((Operator) found.get(i)).release();
      }
    }

    synchronized void end() {
      ended = true;
      operators.clear();
    }

    public synchronized TreeNode apply(TreeNode plan) {
      LogicalPlan top = (LogicalPlan) plan;
      try {
        String action = ended ? null : SparkContext.getOrCreate().getLocalProperty(ACTION);
        if (action == null) {
          return top;
        }
        String[] parts = action.split("\u0001", 2);
        unwatched.clear();
        List found = new ArrayList();
        LogicalPlan other = top;
        try {
          List own = new ArrayList();
          addOwn(top, own);
          if (!own.isEmpty()) {
            // Spark optimises the plan of a write twice in one action: the second time it has the operators of the first.
            if (!isAmong(parts[0], own)) {
              miss("the rows", "", parts[1], "its plan was made for another action");
            }
          } else if (top.isStreaming() || has(top, REWRITES)) {
            boolean isPart = top.getClass().getSimpleName().equals("Subquery");
            miss("all operators", ALL, isPart ? "" : parts[1], isPart ? "they are of a subquery" : "of streams and of changes of rows none can be");
          } else {
            other = watched(top, false, ids(top.output()), true, parts[1], found);
          }
        } catch (Throwable problem) {
          found.clear();
          other = top;
          miss("all operators", ALL, parts[1], "the plan could not be read");
        }
        list(found);
        if (other != top) {
          add(parts[0], found);
        }
        return other;
      } catch (Throwable problem) {
        // The rows can't be watched then; the job goes on.
        return top;
      }
    }

    /** Note what can't be watched: who watches that all rows fulfil something is told. `site`: where it is the output of an action. */
    private void miss(String label, String ops, String site, String why) {
      unwatched.add(line(new String[] {"", label, ops, site, why}));
    }

    private void list(List found) throws IOException {
      Path nodes = Paths.get(folder, new String[] {"nodes.jsonl"});
      StringBuilder lines = new StringBuilder();
      if (Files.size(nodes) < NODES_BYTES_MAX) {
        for (int i = 0; i < found.size(); i++) {
          lines.append(((Operator) found.get(i)).line).append('\n');
        }
        Iterator missed = unwatched.iterator();
        while (missed.hasNext()) {
          lines.append(missed.next()).append('\n');
        }
      } else if (!isFull) {
        isFull = true;
        lines.append(line(new String[] {"", "more operators", "*", "", "they are not listed"})).append('\n');
      }
      Files.write(nodes, lines.toString().getBytes(StandardCharsets.UTF_8), new StandardOpenOption[] {StandardOpenOption.APPEND});
    }

    private void add(String action, List found) {
      List all = (List) operators.get(action);
      if (all == null) {
        all = new ArrayList();
        operators.put(action, all);
      }
      all.addAll(found);
      if (operators.size() > ACTIONS_MAX) {
        operators.remove(operators.keySet().iterator().next());
      }
    }

    private static boolean has(LogicalPlan plan, Set names) {
      if (names.contains(plan.getClass().getSimpleName())) {
        return true;
      }
      scala.collection.Iterator children = plan.children().iterator();
      while (children.hasNext()) {
        if (has((LogicalPlan) children.next(), names)) {
          return true;
        }
      }
      return false;
    }

    private static boolean isOwn(LogicalPlan plan) {
      return isWatch(plan) || TimedFunctions.isTimed(plan);
    }

    private static boolean isWatch(LogicalPlan plan) {
      if (!(plan instanceof Filter) || !(((Filter) plan).condition() instanceof If)) {
        return false;
      }
      Expression gate = ((If) ((Filter) plan).condition()).predicate();
      if (!(gate instanceof Invoke) || !(((Invoke) gate).targetObject() instanceof Literal)) {
        return false;
      }
      Object value = ((Literal) ((Invoke) gate).targetObject()).value();
      return value != null && value.getClass().getName().equals(PassingRows.class.getName());
    }

    static LogicalPlan plain(LogicalPlan plan) {
      if (isWatch(plan)) {
        return plain(((Filter) plan).child());
      }
      List below = new ArrayList();
      boolean changed = false;
      scala.collection.Iterator children = plan.children().iterator();
      while (children.hasNext()) {
        LogicalPlan child = (LogicalPlan) children.next();
        LogicalPlan other = plain(child);
        changed |= other != child;
        below.add(other);
      }
      LogicalPlan node = changed ? (LogicalPlan) plan.withNewChildren(PassingRows.listed(below)) : plan;
      return TimedFunctions.isTimed(node) ? TimedFunctions.plain(node) : node;
    }

    private static Set ids(scala.collection.Iterable attributes) {
      Set ids = new HashSet();
      scala.collection.Iterator all = attributes.iterator();
      while (all.hasNext()) {
        ids.add(id((Attribute) all.next()));
      }
      return ids;
    }

    /**
     * The plan with a filter above each operator whose rows can be watched, which passes all of them.
     *
     * `stops`: a limit stands above, and how Spark computes it may depend on what is right below. `read`: columns that are read above: an
     * operator with others is not watched, as Spark would have to read them. `isOutput`: its rows are those of the action.
     */
    private LogicalPlan watched(LogicalPlan plan, boolean stops, Set read, boolean isOutput, String site, List found) throws IOException {
      String name = plan.getClass().getSimpleName();
      boolean stopsBelow = LIMITS.contains(name) || stops && !name.equals("Sort") && !name.equals("Aggregate");
      boolean isCommand = plan.getClass().getName().endsWith("Command");
      boolean isWatchable =
          !stops
              && !isStopped(plan)
              && !hasFlag(plan.expressions().iterator())
              && (WATCHED.contains(name) || isOutput && LEAVES.contains(name))
              && !plan.output().isEmpty()
              && read.containsAll(ids(plan.output()))
              && (isOutput || !hasDeferred(plan))
              && found.size() < OPERATORS_MAX;
      boolean isOutputBelow = isOutput && (isCommand || PASSING.contains(name));
      if (!isWatchable && (WATCHED.contains(name) || isOutput && !isOutputBelow && !name.equals("CommandResult"))) {
        String why = "a limit stands above or below, it has columns that nothing reads or that are computed later, its rows are set aside above it, or there are too many operators";
        miss(name.toLowerCase() + (isOutput ? "" : " below " + site), name.toLowerCase(), isOutput ? site : "", why);
      }
      Set readBelow = READING.contains(name) ? new HashSet(read) : null;
      if (readBelow != null) {
        if (name.equals("Project") || name.equals("Aggregate")) {
          readBelow.clear();
        }
        readBelow.addAll(ids(plan.references().toSeq()));
      }
      List below = new ArrayList();
      boolean changed = false;
      scala.collection.Iterator children = plan.children().iterator();
      while (children.hasNext()) {
        LogicalPlan child = (LogicalPlan) children.next();
        Set readOfChild = readBelow == null ? ids(child.output()) : readBelow;
        LogicalPlan other = watched(child, stopsBelow, readOfChild, isOutputBelow, site, found);
        changed |= other != child;
        below.add(other);
      }
      LogicalPlan node = changed ? (LogicalPlan) plan.withNewChildren(PassingRows.listed(below)) : plan;
      boolean isFull = found.size() >= OPERATORS_MAX;
      if (TimedFunctions.hasUntimed(plan) || isFull && TimedFunctions.calls(plan)) {
        String why = isFull ? "there are too many operators" : "they are over iterators, groups or windows";
        miss("Python functions (" + name + ")", FUNCTIONS, site, why);
      }
      if (TimedFunctions.calls(plan) && !isFull) {
        return timed(plan, node, site, found);
      }
      return isWatchable ? observed(plan, node, isOutput, site, found) : node;
    }

    /** Whether an expression says which rows a function did not fail on: those that it failed on are there until a filter above. */
    private static boolean hasFlag(scala.collection.Iterator expressions) {
      while (expressions.hasNext()) {
        Expression expression = (Expression) expressions.next();
        boolean isFlag = expression instanceof PythonFuncExpression && ((PythonFuncExpression) expression).name().startsWith(PickledCall.FLAG);
        if (isFlag || hasFlag(expression.children().iterator())) {
          return true;
        }
      }
      return false;
    }

    /**
     * Whether Spark may compute columns of an operator later, for the rows that pass a filter or a join above alone: read here, an expression
     * could fail on a row that the job never computes it for.
     */
    private static boolean hasDeferred(LogicalPlan plan) {
      Set deferred = deferred(plan);
      deferred.retainAll(ids(plan.output()));
      return !deferred.isEmpty();
    }

    /** The columns of an operator that may not be computed yet, as far as that is not known to be otherwise. */
    private static Set deferred(LogicalPlan plan) {
      String name = plan.getClass().getSimpleName();
      Set found = new HashSet();
      if (COMPUTING.contains(name) || plan.children().isEmpty()) {
        return found;
      }
      scala.collection.Iterator children = plan.children().iterator();
      boolean isProject = name.equals("Project");
      if (isProject || PASSING_COLUMNS.contains(name) || name.equals("Union")) {
        while (children.hasNext()) {
          found.addAll(deferred((LogicalPlan) children.next()));
        }
      }
      if (name.equals("Union") ? found.isEmpty() : PASSING_COLUMNS.contains(name)) {
        return found;
      }
      boolean isAggregate = name.equals("Aggregate");
      if (!isProject && !isAggregate) {
        return ids(plan.output());
      }
      scala.collection.Iterator columns =
          (isProject ? ((Project) plan).projectList() : ((Aggregate) plan).aggregateExpressions()).iterator();
      while (columns.hasNext()) {
        Expression column = (Expression) columns.next();
        Expression value = column;
        while (value instanceof Alias) {
          value = ((Alias) value).child();
        }
        boolean isLate = value instanceof Attribute ? found.contains(id((Attribute) value)) : !(value instanceof Literal);
        if (isLate && !(isAggregate && value instanceof AggregateExpression)) {
          found.add(Long.valueOf(((NamedExpression) column).exprId().id()));
        }
      }
      return found;
    }

    private static Long id(Attribute column) {
      return Long.valueOf(column.exprId().id());
    }

    /** Whether a limit stands right below. */
    private static boolean isStopped(LogicalPlan plan) {
      scala.collection.Iterator children = plan.children().iterator();
      while (children.hasNext()) {
        if (LIMITS.contains(children.next().getClass().getSimpleName())) {
          return true;
        }
      }
      return false;
    }

    /** A node whose Python functions can be timed. */
    private LogicalPlan timed(LogicalPlan plan, LogicalPlan node, String site, List found) throws IOException {
      List listed = new ArrayList();
      LogicalPlan other = functions.timed(node, count, site, listed);
      if (listed.isEmpty()) {
        return node;
      }
      for (int i = 0; i < listed.size(); i++) {
        found.add(new Operator(plan, line((String[]) listed.get(i)), other, i));
      }
      count += listed.size();
      return other;
    }

    private LogicalPlan observed(LogicalPlan plan, LogicalPlan node, boolean isOutput, String site, List found) {
      int size = plan.output().size();
      String[] names = new String[size];
      DataType[] types = new DataType[size];
      boolean[] padded = new boolean[size];
      List values = new ArrayList();
      scala.collection.Iterator columns = plan.output().iterator();
      StringBuilder listed = new StringBuilder();
      for (int i = 0; i < size; i++) {
        Attribute column = (Attribute) columns.next();
        names[i] = column.name();
        types[i] = column.dataType();
        padded[i] = isPadded(column);
        listed.append(i == 0 ? "" : ", ").append(names[i]);
        values.add(Literal$.MODULE$.apply("c" + i));
        values.add(column);
      }
      if (listed.length() > NAME_MAX) {
        listed.setLength(NAME_MAX);
        listed.append("...");
      }
      String op = plan.getClass().getSimpleName().toLowerCase();
      String of = isOutput ? "" : " below " + site;
      String[] facts = {"f" + count++, op + " [" + listed + "]" + of, op, isOutput ? site : ""};
      String zone = SQLConf$.MODULE$.get().sessionLocalTimeZone();
      PassingRows rows = new PassingRows(folder, facts, names, types, padded, zone, texts, charactersMax);
      Expression gate = call(rows, BooleanSupplier.class, "getAsBoolean", new ArrayList());
      List row = new ArrayList();
      row.add(new CreateNamedStruct(PassingRows.listed(values)));
      Expression test = call(rows, Predicate.class, "test", row);
      Filter filter = new Filter(new If(gate, test, Literal$.MODULE$.apply(Boolean.TRUE)), node);
      found.add(new Operator(plan, line(facts), filter, -1));
      return filter;
    }

    /** Whether it is a column of CHAR(n): a filter pads the constants that it is compared with. */
    private static boolean isPadded(Attribute column) {
      String key = "__CHAR_VARCHAR_TYPE_STRING";
      String declared = column.metadata().contains(key) ? column.metadata().getString(key) : column.dataType().catalogString();
      return declared.toLowerCase().startsWith("char");
    }

    private static Expression call(PassingRows rows, Class type, String method, List arguments) {
      Expression target = Literal$.MODULE$.fromObject(rows, new ObjectType(type));
      scala.collection.immutable.Seq none = (scala.collection.immutable.Seq) PassingRows.listed(new ArrayList());
      return new Invoke(
          target, method, DataTypes.BooleanType, (scala.collection.immutable.Seq) PassingRows.listed(arguments), none, false, false, false);
    }

    private static String line(String[] facts) {
      try {
        return new ObjectMapper().writeValueAsString(facts);
      } catch (IOException problem) {
        throw new IllegalStateException(problem);
      }
    }
  }
}
