package lineage;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.util.RawValue;
import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.Serializable;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.DirectoryStream;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import java.util.jar.JarEntry;
import java.util.jar.JarOutputStream;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.SimpleAnalyzer$;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.objects.Invoke;
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.types.AtomicType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.sql.types.ObjectType;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.mutable.ListBuffer;

/**
 * Lets rows of DataFrames be watched while they pass: watched_rows.py says how; compiled as PlanText.java is. The driver uses the outer
 * class and the rule, executors load the rest from a jar (`jar`).
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
   * A rule for one captured application. `folder`: by which it is watched, `board` the file in it that says what for. `texts`: whether
   * values may be shown, up to so many characters of a row.
   */
  public WatchedRows of(String folder, boolean texts, int charactersMax) {
    return new WatchedRows(new Watching(folder, texts, charactersMax));
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

  /** An operator of a plan that ran. */
  private static class Operator {
    final String line;
    private LogicalPlan plan;
    private final WeakReference filter;

    /** `filter`: what the rule put above it, which is part of the plan that runs. */
    Operator(LogicalPlan plan, String line, Filter filter) {
      this.plan = plan;
      this.line = line;
      this.filter = new WeakReference(filter);
    }

    void release() {
      plan = null;
    }

    boolean isAmong(List filters) {
      Object own = filter.get();
      Iterator all = filters.iterator();
      while (own != null && all.hasNext()) {
        if (all.next() == own) {
          return true;
        }
      }
      return false;
    }

    LogicalPlan plan() {
      Filter running = plan == null ? (Filter) filter.get() : null;
      return running == null ? plan : Watching.plain(running);
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
    private static final String ALL = String.join(",", WATCHED).toLowerCase();
    private static final int NAME_MAX = 200;

    private final String folder;
    private final boolean texts;
    private final int charactersMax;
    private int count = 0;
    private boolean isFull;

    /** Of the plan at work: lines of what can't be watched. */
    private final Set unwatched = new LinkedHashSet();

    /** Of the latest actions, by number. */
    private final Map operators = new LinkedHashMap();

    private boolean ended;

    Watching(String folder, boolean texts, int charactersMax) {
      this.folder = folder;
      this.texts = texts;
      this.charactersMax = charactersMax;
    }

    synchronized List of(String action) {
      List found = (List) operators.get(action);
      return found == null ? new ArrayList() : new ArrayList(found);
    }

    synchronized String actions(LogicalPlan plan) {
      List filters = new ArrayList();
      addFilters(plan, filters);
      List found = new ArrayList();
      Iterator all = operators.entrySet().iterator();
      while (all.hasNext()) {
        Map.Entry action = (Map.Entry) all.next();
        Iterator each = ((List) action.getValue()).iterator();
        boolean isOf = false;
        while (each.hasNext() && !isOf) {
          isOf = ((Operator) each.next()).isAmong(filters);
        }
        if (isOf) {
          found.add(action.getKey());
        }
      }
      return String.join("\n", found);
    }

    private static void addFilters(LogicalPlan plan, List filters) {
      if (isWatch(plan)) {
        filters.add(plan);
      }
      scala.collection.Iterator children = plan.children().iterator();
      while (children.hasNext()) {
        addFilters((LogicalPlan) children.next(), filters);
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
          if (isWatched(top)) {
            miss("the rows", "", parts[1], "its plan was made for another action");
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

    private static boolean isWatch(LogicalPlan plan) {
      if (!(plan instanceof Filter) || !(((Filter) plan).condition() instanceof If)) {
        return false;
      }
      Expression gate = ((If) ((Filter) plan).condition()).predicate();
      if (!(gate instanceof Invoke) || !(((Invoke) gate).targetObject() instanceof Literal)) {
        return false;
      }
      Object value = ((Literal) ((Invoke) gate).targetObject()).value();
      return value != null && value.getClass().getName().equals(Rows.class.getName());
    }

    private static boolean isWatched(LogicalPlan plan) {
      if (isWatch(plan)) {
        return true;
      }
      scala.collection.Iterator children = plan.children().iterator();
      while (children.hasNext()) {
        if (isWatched((LogicalPlan) children.next())) {
          return true;
        }
      }
      return false;
    }

    static LogicalPlan plain(LogicalPlan plan) {
      if (isWatch(plan)) {
        return plain(((Filter) plan).child());
      }
      ListBuffer below = new ListBuffer();
      boolean changed = false;
      scala.collection.Iterator children = plan.children().iterator();
      while (children.hasNext()) {
        LogicalPlan child = (LogicalPlan) children.next();
        LogicalPlan other = plain(child);
        changed |= other != child;
        below.$plus$eq(other);
      }
      return changed ? (LogicalPlan) plan.withNewChildren(below.toList()) : plan;
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
    private LogicalPlan watched(LogicalPlan plan, boolean stops, Set read, boolean isOutput, String site, List found) {
      String name = plan.getClass().getSimpleName();
      boolean stopsBelow = LIMITS.contains(name) || stops && !name.equals("Sort") && !name.equals("Aggregate");
      boolean isCommand = plan.getClass().getName().endsWith("Command");
      boolean isWatchable =
          !stops
              && !isStopped(plan)
              && (WATCHED.contains(name) || isOutput && LEAVES.contains(name))
              && !plan.output().isEmpty()
              && read.containsAll(ids(plan.output()))
              && (isOutput || !hasDeferred(plan))
              && found.size() < OPERATORS_MAX;
      boolean isOutputBelow = isOutput && (isCommand || PASSING.contains(name));
      if (!isWatchable && (WATCHED.contains(name) || isOutput && !isOutputBelow && !name.equals("CommandResult"))) {
        String why = "a limit stands above or below, it has columns that nothing reads or that are computed later, or there are too many operators";
        miss(name.toLowerCase() + (isOutput ? "" : " below " + site), name.toLowerCase(), isOutput ? site : "", why);
      }
      Set readBelow = READING.contains(name) ? new HashSet(read) : null;
      if (readBelow != null) {
        if (name.equals("Project") || name.equals("Aggregate")) {
          readBelow.clear();
        }
        readBelow.addAll(ids(plan.references().toSeq()));
      }
      ListBuffer below = new ListBuffer();
      boolean changed = false;
      scala.collection.Iterator children = plan.children().iterator();
      while (children.hasNext()) {
        LogicalPlan child = (LogicalPlan) children.next();
        Set readOfChild = readBelow == null ? ids(child.output()) : readBelow;
        LogicalPlan other = watched(child, stopsBelow, readOfChild, isOutputBelow, site, found);
        changed |= other != child;
        below.$plus$eq(other);
      }
      LogicalPlan node = changed ? (LogicalPlan) plan.withNewChildren(below.toList()) : plan;
      return isWatchable ? observed(plan, node, isOutput, site, found) : node;
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

    private LogicalPlan observed(LogicalPlan plan, LogicalPlan node, boolean isOutput, String site, List found) {
      int size = plan.output().size();
      String[] names = new String[size];
      DataType[] types = new DataType[size];
      boolean[] padded = new boolean[size];
      ListBuffer values = new ListBuffer();
      scala.collection.Iterator columns = plan.output().iterator();
      StringBuilder listed = new StringBuilder();
      for (int i = 0; i < size; i++) {
        Attribute column = (Attribute) columns.next();
        names[i] = column.name();
        types[i] = column.dataType();
        padded[i] = isPadded(column);
        listed.append(i == 0 ? "" : ", ").append(names[i]);
        values.$plus$eq(Literal$.MODULE$.apply("c" + i));
        values.$plus$eq(column);
      }
      if (listed.length() > NAME_MAX) {
        listed.setLength(NAME_MAX);
        listed.append("...");
      }
      String op = plan.getClass().getSimpleName().toLowerCase();
      String of = isOutput ? "" : " below " + site;
      String[] facts = {"f" + count++, op + " [" + listed + "]" + of, op, isOutput ? site : ""};
      String zone = SQLConf$.MODULE$.get().sessionLocalTimeZone();
      Rows rows = new Rows(folder, facts, names, types, padded, zone, texts, charactersMax);
      Expression gate = call(rows, BooleanSupplier.class, "getAsBoolean", new ListBuffer());
      ListBuffer row = new ListBuffer();
      row.$plus$eq(new CreateNamedStruct(values.toList()));
      Expression test = call(rows, Predicate.class, "test", row);
      Filter filter = new Filter(new If(gate, test, Literal$.MODULE$.apply(Boolean.TRUE)), node);
      found.add(new Operator(plan, line(facts), filter));
      return filter;
    }

    /** Whether it is a column of CHAR(n): a filter pads the constants that it is compared with. */
    private static boolean isPadded(Attribute column) {
      String key = "__CHAR_VARCHAR_TYPE_STRING";
      String declared = column.metadata().contains(key) ? column.metadata().getString(key) : column.dataType().catalogString();
      return declared.toLowerCase().startsWith("char");
    }

    private static Expression call(Rows rows, Class type, String method, ListBuffer arguments) {
      Expression target = Literal$.MODULE$.fromObject(rows, new ObjectType(type));
      scala.collection.immutable.Seq none = (scala.collection.immutable.Seq) new ListBuffer().toList();
      return new Invoke(
          target, method, DataTypes.BooleanType, (scala.collection.immutable.Seq) arguments.toList(), none, false, false, false);
    }

    private static String line(String[] facts) {
      try {
        return new ObjectMapper().writeValueAsString(facts);
      } catch (IOException problem) {
        throw new IllegalStateException(problem);
      }
    }
  }

  /** What is watched for, as the driver wrote it last: one a process of executors. */
  private static class Board {
    private static final Map boards = new HashMap();

    private final Path path;
    private byte[] written = new byte[0];
    private List entries = new ArrayList();
    private long readAt;

    private Board(Path path) {
      this.path = path;
    }

    /** The entries now, or those of at most so long ago. The same list as before where nothing has changed. */
    static List entries(String folder, long agoNs) throws IOException {
      Board board;
      synchronized (boards) {
        board = (Board) boards.get(folder);
        if (board == null) {
          board = new Board(Paths.get(folder, new String[] {"rows.json"}));
          boards.put(folder, board);
        }
      }
      return board.read(agoNs);
    }

    private synchronized List read(long agoNs) throws IOException {
      long now = System.nanoTime();
      if (written.length > 0 && now - readAt < agoNs) {
        return entries;
      }
      byte[] text;
      try {
        text = Files.readAllBytes(path);
      } catch (NoSuchFileException end) {
        // The folder goes with the job.
        text = new byte[] {'[', ']'};
      }
      if (!Arrays.equals(text, written)) {
        entries = (List) new ObjectMapper().readValue(text, List.class);
        written = text;
      }
      readAt = now;
      return entries;
    }
  }

  /** The rows of one operator, in one run of a task (each gets an object of its own). */
  public static class Rows implements Predicate, BooleanSupplier, Serializable {
    private static final long serialVersionUID = 1L;
    private static final long POLL_NS = 200000000L;
    private static final int PLACE_MAX = 2000;

    private final String folder;
    private final String[] facts;
    private final String[] names;
    private final DataType[] types;
    private final boolean[] padded;
    private final String zone;
    private final boolean texts;
    private final int charactersMax;

    private transient int seen;
    private transient long polledAt;
    private transient List entries;
    private transient Map runs;
    private transient Run[] active;
    private transient String run;

    /** What is watched for could not be read, and who watches has not been told so. */
    private transient boolean isBlind;

    private transient Expression[] values;

    /** `padded`: by column whether constants are padded for it. `zone`: the time zone of the driver's session. */
    Rows(String folder, String[] facts, String[] names, DataType[] types, boolean[] padded, String zone, boolean texts, int charactersMax) {
      this.folder = folder;
      this.facts = facts;
      this.names = names;
      this.types = types;
      this.padded = padded;
      this.zone = zone;
      this.texts = texts;
      this.charactersMax = charactersMax;
    }

    public String toString() {
      return facts[0];
    }

    /** A row passes: whether somebody watches. */
    public boolean getAsBoolean() {
      if ((seen++ & 255) == 0) {
        try {
          poll();
        } catch (Throwable problem) {
          isBlind = true;
        }
        if (isBlind) {
          isBlind = !toldLost();
        }
      }
      return active != null;
    }

    /** Tell all who watch that rows may be missing; false: that could not be written. */
    private boolean toldLost() {
      try {
        DirectoryStream all = Files.newDirectoryStream(Paths.get(folder, new String[] {"hits"}));
        try {
          Iterator each = all.iterator();
          while (each.hasNext()) {
            new File(((Path) each.next()).toFile(), run + ".lost").createNewFile();
          }
        } finally {
          all.close();
        }
        return true;
      } catch (NoSuchFileException end) {
        return true;
      } catch (IOException problem) {
        return false;
      }
    }

    private void poll() throws IOException {
      long now = System.nanoTime();
      boolean isFirst = runs == null;
      if (!isFirst && now - polledAt < POLL_NS) {
        return;
      }
      polledAt = now;
      if (isFirst) {
        runs = new HashMap();
        run = UUID.randomUUID().toString().replace("-", "");
        final Rows rows = this;
        TaskContext.get()
            .addTaskCompletionListener(
                new TaskCompletionListener() {
                  public void onTaskCompletion(TaskContext context) {
                    rows.close();
                  }
                });
      }
      List current = Board.entries(folder, isFirst ? 0 : POLL_NS);
      if (current == entries) {
        return;
      }
      entries = current;
      List fitting = new ArrayList();
      for (int i = 0; i < current.size(); i++) {
        Map entry = (Map) current.get(i);
        String node = (String) entry.get("node");
        if (node.equals(facts[0]) || node.equals(facts[1]) || node.equals(facts[2]) || node.equals(facts[3])) {
          Run run = runOf(entry);
          if (run.predicate != null) {
            fitting.add(run);
          }
        }
      }
      active = fitting.isEmpty() ? null : (Run[]) fitting.toArray(new Run[fitting.size()]);
    }

    private Run runOf(Map entry) {
      String id = (String) entry.get("id");
      Run found = (Run) runs.get(id);
      if (found == null) {
        found = new Run(Paths.get(folder, new String[] {"hits", id, run + ".jsonl"}), entry);
        runs.put(id, found);
        String problem = (String) entry.get("problem");
        if (problem == null) {
          try {
            found.predicate = predicate((String) entry.get("sql"));
          } catch (Throwable failure) {
            problem = "the condition can't be tested on [" + String.join(", ", names) + "]";
            String why = failure.getMessage();
            problem += why == null ? "" : ": " + why.split("\n")[0];
          }
        }
        if (problem != null) {
          Map line = line();
          line.put("problem", problem.length() > 500 ? problem.substring(0, 500) : problem);
          found.write(line);
        }
      }
      return found;
    }

    private BasePredicate predicate(String sql) {
      String ownZone = SQLConf$.MODULE$.get().sessionLocalTimeZone();
      if (!ownZone.equals(zone)) {
        throw new IllegalArgumentException("the driver has the time zone " + zone + ", and its executor " + ownZone + ": set spark.sql.session.timeZone");
      }
      return Predicate$.MODULE$.create(evaluable(analysed(sql, names, types, padded, 0)));
    }

    /** A condition on rows, whose columns are those from `first` on. */
    private static Expression analysed(String sql, String[] names, DataType[] types, boolean[] padded, int first) {
      BoundReference[] columns = new BoundReference[names.length];
      for (int i = 0; i < names.length; i++) {
        columns[i] = new BoundReference(first + i, types[i], true);
      }
      Expression named = named(CatalystSqlParser$.MODULE$.parseExpression(sql), names, columns, padded);
      LogicalPlan none = LocalRelation$.MODULE$.apply((scala.collection.immutable.Seq) new ListBuffer().toList());
      LogicalPlan analysed = (LogicalPlan) SimpleAnalyzer$.MODULE$.execute(new Filter(named, none));
      SimpleAnalyzer$.MODULE$.checkAnalysis(analysed);
      return ((Filter) analysed).condition();
    }

    /** An expression with columns in the place of their names, which each are those of just one. */
    private static Expression named(Expression expression, String[] names, BoundReference[] columns, boolean[] padded) {
      if (expression instanceof UnresolvedAttribute) {
        String name = ((UnresolvedAttribute) expression).nameParts().mkString(".");
        Expression found = null;
        for (int i = 0; i < columns.length; i++) {
          if (names[i].equalsIgnoreCase(name)) {
            if (found != null) {
              throw new IllegalArgumentException("several columns are called " + name);
            }
            if (padded[i]) {
              throw new IllegalArgumentException("its column " + name + " is of CHAR(n), with which constants are not compared here");
            }
            found = columns[i];
          }
        }
        if (found == null) {
          throw new IllegalArgumentException("it has no column " + name);
        }
        return found;
      }
      ListBuffer below = new ListBuffer();
      scala.collection.Iterator children = expression.children().iterator();
      if (!children.hasNext()) {
        return expression;
      }
      while (children.hasNext()) {
        below.$plus$eq(named((Expression) children.next(), names, columns, padded));
      }
      return (Expression) expression.withNewChildren(below.toList());
    }

    private static Expression evaluable(Expression expression) {
      Expression stated = expression;
      while (stated instanceof RuntimeReplaceable) {
        stated = ((RuntimeReplaceable) stated).replacement();
      }
      ListBuffer below = new ListBuffer();
      scala.collection.Iterator children = stated.children().iterator();
      if (!children.hasNext()) {
        return stated;
      }
      while (children.hasNext()) {
        below.$plus$eq(evaluable((Expression) children.next()));
      }
      return (Expression) stated.withNewChildren(below.toList());
    }

    /** A row passes that somebody watches for. True: no row is left out. */
    public boolean test(Object row) {
      try {
        Run[] all = active;
        for (int i = 0; all != null && i < all.length; i++) {
          tested(all[i], (InternalRow) row);
        }
      } catch (Throwable problem) {
        // The job goes on.
        isBlind = true;
      }
      return true;
    }

    private void tested(Run run, InternalRow row) {
      run.tested++;
      boolean fulfils = false;
      try {
        fulfils = run.predicate.eval(row);
      } catch (Throwable problem) {
        run.failed++;
        if (run.failed == 1) {
          // Its type alone: what it says may hold the row.
          Map line = line();
          line.put("error", problem.getClass().getSimpleName());
          run.write(line);
        }
      }
      if (fulfils == run.must) {
        return;
      }
      if (run.count >= run.limit || run.bytes >= Run.BYTES_MAX) {
        run.beyond++;
        return;
      }
      run.count++;
      Map line = line();
      line.put("text", null);
      line.put("made_from", new Object[0]);
      line.put("superset", Boolean.FALSE);
      line.put("row", "");
      if (texts) {
        try {
          show(row, line);
        } catch (Throwable problem) {
          line.put("row", "");
        }
      }
      run.write(line);
    }

    private Map line() {
      Map line = new LinkedHashMap();
      line.put("node", facts[0]);
      line.put("label", facts[1] + " (" + facts[0] + ")" + (facts[3].isEmpty() ? "" : " at " + facts[3]));
      line.put("partition", Integer.valueOf(TaskContext.getPartitionId()));
      return line;
    }

    /** What a row looks like, and how a trace names it by its values. */
    private void show(InternalRow row, Map line) throws IOException {
      if (values == null) {
        values = asTexts();
      }
      Map shown = new LinkedHashMap();
      StringBuilder place = new StringBuilder();
      Set lowered = new HashSet();
      String unnamed = "";
      for (int i = 0; i < names.length; i++) {
        Object value = values[i] == null ? null : values[i].eval(row);
        String text = value == null ? null : value.toString();
        String type = types[i].catalogString();
        boolean isPlain = types[i] instanceof NumericType && !"NaN".equals(text) && text != null && !text.endsWith("Infinity");
        String name = shown.containsKey(names[i]) ? names[i] + " (" + (i + 1) + ")" : names[i];
        shown.put(name, text != null && (isPlain || type.equals("boolean")) ? (Object) new RawValue(text) : text);
        if (!lowered.add(names[i].toLowerCase())) {
          unnamed = "several columns are called " + names[i] + ": its values name no row of a trace";
        } else if (values[i] == null || !(types[i] instanceof AtomicType) || type.equals("binary") || type.equals("variant")) {
          unnamed = "a trace compares no column of " + (type.length() > 80 ? type.substring(0, 80) : type) + ": its other values may name more rows";
        } else {
          place.append(place.length() == 0 ? "" : ",").append(quoted(names[i])).append('=');
          place.append(text == null ? "" : quoted(text));
        }
      }
      String text = new ObjectMapper().writeValueAsString(shown);
      line.put("text", text.length() > charactersMax ? text.substring(0, charactersMax) + "… (cut)" : text);
      line.put("row", place.length() > PLACE_MAX || !unnamed.isEmpty() ? "" : place.toString());
      line.put("unnamed", unnamed);
    }

    private static String quoted(String text) {
      boolean isPlain = !text.isEmpty() && text.indexOf(',') < 0 && text.indexOf('"') < 0 && text.indexOf('=') < 0 && text.indexOf('#') < 0 && text.trim().equals(text);
      return isPlain ? text : "\"" + text.replace("\"", "\"\"") + "\"";
    }

    /** By column its value as a text; null where it has none. */
    private Expression[] asTexts() {
      Expression[] found = new Expression[names.length];
      // What is longer is cut, and names no row.
      int most = Math.max(charactersMax, PLACE_MAX) + 1;
      for (int i = 0; i < names.length; i++) {
        try {
          Expression isNull = analysed("substring(cast(c as string), 1, " + most + ") is null", new String[] {"c"}, new DataType[] {types[i]}, new boolean[1], i);
          found[i] = evaluable(((IsNull) isNull).child());
        } catch (Throwable problem) {
          found[i] = null;
        }
      }
      return found;
    }

    void close() {
      if (isBlind) {
        toldLost();
      }
      Iterator all = runs.values().iterator();
      while (all.hasNext()) {
        Run run = (Run) all.next();
        if (run.beyond > 0 || run.failed > 0 || run.must && run.predicate != null) {
          Map line = line();
          line.put("beyond", Integer.valueOf(run.beyond));
          line.put("failed", Integer.valueOf(run.failed));
          line.put("tested", Long.valueOf(run.tested));
          run.write(line);
        }
        run.close();
      }
    }
  }

  /** What one run of a task reports of one watch: written at once, as worker/watch_hits.py does. */
  private static class Run {
    static final int BYTES_MAX = 4 << 20;

    final boolean must;
    final int limit;
    BasePredicate predicate;
    int count = 0;
    int bytes = 0;
    int beyond = 0;
    int failed = 0;
    long tested = 0;

    private final Path path;
    private FileChannel channel;
    private boolean isLost;

    Run(Path path, Map entry) {
      this.path = path;
      must = ((Boolean) entry.get("must")).booleanValue();
      limit = ((Number) entry.get("limit")).intValue();
    }

    void write(Map document) {
      if (isLost) {
        return;
      }
      try {
        byte[] line = (new ObjectMapper().writeValueAsString(document) + "\n").getBytes(StandardCharsets.UTF_8);
        if (channel == null) {
          FileAttribute[] own = {PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"))};
          Set options = new HashSet(Arrays.asList(new StandardOpenOption[] {StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE}));
          channel = FileChannel.open(path, options, own);
        }
        ByteBuffer left = ByteBuffer.wrap(line);
        while (left.hasRemaining()) {
          channel.write(left);
        }
        bytes += line.length;
      } catch (IOException problem) {
        isLost = true;
        File lost = new File(path.toString().replace(".jsonl", ".lost"));
        try {
          // Without the folder nobody watches any more.
          lost.createNewFile();
        } catch (IOException gone) {
          isLost = true;
        }
      }
    }

    void close() {
      try {
        if (channel != null) {
          channel.close();
        }
      } catch (IOException problem) {
        isLost = true;
      }
    }
  }
}
