package lineage;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.PythonFuncExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.logical.ArrowEvalPython;
import org.apache.spark.sql.catalyst.plans.logical.BatchEvalPython;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Subquery;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.columnar.InMemoryRelation;
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Has plans go on without the rows on which a Python function of a row fails: set_aside.py says how; compiled as PlanText.java is.
 */
public class FailingRows {
  private Guarding rule;

  public FailingRows() {}

  private FailingRows(Guarding rule) {
    this.rule = rule;
  }

  /**
   * A rule for one captured application: `reports` is the pickled accumulator that its tasks report to. `guardsArrowRows`: this Spark hands
   * functions of a row their values by Arrow, with no detour by pandas.
   */
  public FailingRows of(byte[] reports, int recordsMax, boolean guardsArrowRows) {
    return new FailingRows(new Guarding(reports, String.valueOf(recordsMax), guardsArrowRows));
  }

  /** Rows were left out on which a function failed, by its number. */
  public void leftOut(long function) {
    Guarding.LEFT_OUT.add(Long.valueOf(function));
  }

  /** The rule, for `PlanRules.install`. */
  public Rule rule() {
    return rule;
  }

  /** The application has ended: plans that are optimised from now on stay what they are. */
  public void end() {
    rule.ended = true;
  }

  private static class Guarding extends Rule {
    static final String RUNNING = "lineage.sets.aside";
    static final String BY_PANDAS = "spark.sql.legacy.execution.pythonUDF.pandas.conversion.enabled";

    /** Numbers of functions that rows were left out for, of all applications of this JVM: what is cached outlives them. */
    static final Set LEFT_OUT = ConcurrentHashMap.newKeySet();

    private static final Set REWRITES =
        new HashSet(
            Arrays.asList(
                new String[] {
                  "ReplaceData", "WriteDelta", "MergeRows", "MergeIntoTable", "UpdateTable", "DeleteFromTable", "DeltaMergeInto", "DeltaUpdateTable", "DeltaDelete", "Subquery"
                }));
    private static final Set STOPPING =
        new HashSet(
            Arrays.asList(new String[] {"MapInPandas", "MapInArrow", "PythonMapInArrow", "MapPartitions", "MapPartitionsInR", "MapPartitionsInRWithArrow", "ScriptTransformation"}));

    private static final String DELTA_COMMANDS = "org.apache.spark.sql.delta.commands.";

    private final byte[] reports;
    private final String recordsMax;
    private final boolean guardsArrowRows;
    private final FailingGroups groups;
    volatile boolean ended;

    Guarding(byte[] reports, String recordsMax, boolean guardsArrowRows) {
      this.reports = reports;
      this.recordsMax = recordsMax;
      this.guardsArrowRows = guardsArrowRows;
      this.groups = new FailingGroups(reports, recordsMax);
    }

    public TreeNode apply(TreeNode plan) {
      LogicalPlan top = (LogicalPlan) plan;
      checkCached(top);
      try {
        LogicalPlan other = ended || top.isStreaming() || rewritesTable(top) ? top : rewritten(top, false);
        return other == top || isInRewriting() ? top : other;
      } catch (Throwable problem) {
        // A row that fails ends the job as ever.
        return top;
      }
    }

    /**
     * Whether a plan changes rows of a table (of Iceberg), reads them to that end (of Delta), or may be a subquery of such a plan: what it
     * leaves out would be deleted. Subqueries that Spark makes joins of are met again in the plan around them.
     */
    private static boolean rewritesTable(LogicalPlan plan) {
      if (REWRITES.contains(plan.getClass().getSimpleName())) {
        return true;
      }
      if (plan instanceof LogicalRelation && ((LogicalRelation) plan).relation() instanceof HadoopFsRelation) {
        Class index = ((HadoopFsRelation) ((LogicalRelation) plan).relation()).location().getClass();
        for (; index != null; index = index.getSuperclass()) {
          if (index.getName().endsWith(".TahoeBatchFileIndex")) {
            return true;
          }
        }
      }
      scala.collection.Iterator children = plan.children().iterator();
      while (children.hasNext()) {
        if (rewritesTable((LogicalPlan) children.next())) {
          return true;
        }
      }
      return false;
    }

    /**
     * Refuse a statement that changes rows of a table and reads a cached frame which lacks rows that a function failed on. What is computed of
     * such a frame from here on ends the statement as it would without capture.
     */
    private static void checkCached(LogicalPlan top) {
      Set functions = new HashSet();
      try {
        addCachedFunctions(top, functions);
        if (functions.isEmpty() || !(top instanceof Subquery ? isInRewriting() : rewritesTable(top) || isInRewriting())) {
          return;
        }
        SparkContext.getOrCreate().setLocalProperty(RUNNING, null);
      } catch (Throwable problem) {
        if (functions.isEmpty()) {
          return;
        }
      }
      functions.retainAll(LEFT_OUT);
      if (!functions.isEmpty()) {
        throw new IllegalStateException(
            "lineage: a cached frame that this statement reads lacks rows that a Python function failed on, as LINEAGE_QUARANTINE set them aside: "
                + "the statement would change the table as if they were not there. Give it the frame without cache, or run without LINEAGE_QUARANTINE");
      }
    }

    /** Add the numbers of functions which rows may have been left out for, of all that is cached of a plan. */
    private static void addCachedFunctions(LogicalPlan plan, Set functions) {
      if (plan instanceof InMemoryRelation) {
        addFunctions(((InMemoryRelation) plan).cacheBuilder().cachedPlan(), functions);
      }
      scala.collection.Iterator children = plan.children().iterator();
      while (children.hasNext()) {
        addCachedFunctions((LogicalPlan) children.next(), functions);
      }
      scala.collection.Iterator subqueries = plan.subqueries().iterator();
      while (subqueries.hasNext()) {
        addCachedFunctions((LogicalPlan) subqueries.next(), functions);
      }
    }

    private static void addFunctions(SparkPlan plan, Set functions) {
      if (plan instanceof AdaptiveSparkPlanExec) {
        addFunctions(((AdaptiveSparkPlanExec) plan).inputPlan(), functions);
      }
      if (plan instanceof InMemoryTableScanExec) {
        addCachedFunctions(((InMemoryTableScanExec) plan).relation(), functions);
      }
      scala.collection.Iterator expressions = plan.expressions().iterator();
      while (expressions.hasNext()) {
        addFunctions((Expression) expressions.next(), functions);
      }
      scala.collection.Iterator children = plan.children().iterator();
      while (children.hasNext()) {
        addFunctions((SparkPlan) children.next(), functions);
      }
    }

    private static void addFunctions(Expression expression, Set functions) {
      if (expression instanceof PythonFuncExpression) {
        String name = ((PythonFuncExpression) expression).name();
        if (name.startsWith(PickledCall.FLAG)) {
          functions.add(Long.valueOf(name.substring(PickledCall.FLAG.length())));
        } else if (expression instanceof PythonUDF && isGuarded((PythonUDF) expression)) {
          functions.add(Long.valueOf(((PythonUDF) expression).resultId().id()));
        }
      }
      scala.collection.Iterator children = expression.children().iterator();
      while (children.hasNext()) {
        addFunctions((Expression) children.next(), functions);
      }
    }

    /** Whether a command of Delta plans this that is no plain write: some of its plans do not show what they are for. */
    private static boolean isInRewriting() {
      StackTraceElement[] callers = Thread.currentThread().getStackTrace();
      for (int i = 0; i < callers.length; i++) {
        String name = callers[i].getClassName();
        if (name.startsWith(DELTA_COMMANDS)) {
          String command = name.substring(DELTA_COMMANDS.length());
          if (!command.startsWith("WriteIntoDelta") && !command.startsWith("CreateDeltaTable") && !command.startsWith("DeltaCommand")) {
            return true;
          }
        }
      }
      return false;
    }

    /**
     * The plan with what fails left out. `stops`: it may not be read to its end, and what its tasks would report is lost then; behind a sort or
     * an aggregation all is read.
     */
    private LogicalPlan rewritten(LogicalPlan plan, boolean stops) {
      String name = plan.getClass().getSimpleName();
      boolean stopsBelow =
          FailingGroups.isLimit(plan) || STOPPING.contains(name) || stops && !name.equals("Sort") && !name.equals("Aggregate");
      List below = new ArrayList();
      boolean changed = false;
      scala.collection.Iterator children = plan.children().iterator();
      while (children.hasNext()) {
        LogicalPlan child = (LogicalPlan) children.next();
        LogicalPlan other = rewritten(child, stopsBelow);
        changed |= other != child;
        below.add(other);
      }
      LogicalPlan node = changed ? (LogicalPlan) plan.withNewChildren(PassingRows.listed(below)) : plan;
      if (stops) {
        return node;
      }
      if (node instanceof BatchEvalPython) {
        BatchEvalPython rows = (BatchEvalPython) node;
        return withoutFailing(rows, rows.child(), rows.udfs().iterator(), rows.resultAttrs().iterator(), PickledCall.BY_PICKLE);
      }
      if (node instanceof ArrowEvalPython) {
        ArrowEvalPython batches = (ArrowEvalPython) node;
        return withoutFailing(batches, batches.child(), batches.udfs().iterator(), batches.resultAttrs().iterator(), batches.evalType());
      }
      return groups.withoutFailing(node);
    }

    /** The results of Python functions, of the rows alone on which none of them fails. */
    private LogicalPlan withoutFailing(
        LogicalPlan node, LogicalPlan child, scala.collection.Iterator udfs, scala.collection.Iterator attributes, int evalType) {
      if (FailingGroups.isCut(child) || !mayGuard(evalType)) {
        return node;
      }
      List functions = new ArrayList();
      List results = new ArrayList();
      List columns = new ArrayList();
      scala.collection.Iterator passed = child.output().iterator();
      while (passed.hasNext()) {
        columns.add(passed.next());
      }
      Expression condition = null;
      while (udfs.hasNext()) {
        PythonUDF udf = (PythonUDF) udfs.next();
        Attribute result = (Attribute) attributes.next();
        if (PickledCall.isFlag(udf)) {
          return node;
        }
        PythonUDF guarded = guarded(udf, evalType);
        if (guarded == null) {
          functions.add(udf);
          results.add(result);
          columns.add(result);
          continue;
        }
        Expression isKept;
        functions.add(guarded);
        if (evalType == PickledCall.BY_PICKLE) {
          AttributeReference kept = FailingGroups.column(guarded.dataType());
          results.add(kept);
          columns.add(
              new Alias(
                  new GetStructField(kept, 0, scala.Option.apply(null)),
                  result.name(),
                  result.exprId(),
                  result.qualifier(),
                  scala.Option.apply(null),
                  PassingRows.listed(new ArrayList())));
          isKept = new IsNotNull(kept);
        } else {
          AttributeReference kept = FailingGroups.column(DataTypes.BooleanType);
          results.add(result);
          columns.add(result);
          functions.add(flag(udf, evalType));
          results.add(kept);
          isKept = kept;
        }
        condition = condition == null ? isKept : new And(condition, isKept);
      }
      if (condition == null) {
        return node;
      }
      LogicalPlan computed =
          evalType == PickledCall.BY_PICKLE
              ? (LogicalPlan) new BatchEvalPython(PassingRows.listed(functions), PassingRows.listed(results), child)
              : (LogicalPlan) new ArrowEvalPython(PassingRows.listed(functions), PassingRows.listed(results), child, evalType);
      return new Project(PassingRows.listed(columns), new Filter(condition, computed));
    }

    /** Whether functions of a kind are of one row, so that it is known which row they fail on. */
    private boolean mayGuard(int evalType) {
      if (evalType == PickledCall.ARROW_ROWS) {
        return guardsArrowRows && SQLConf.get().getConfString(BY_PANDAS, "false").equalsIgnoreCase("false");
      }
      return evalType == PickledCall.BY_PICKLE || evalType == PickledCall.PANDAS || evalType == PickledCall.ARROW;
    }

    /**
     * A function that goes on where it fails; null where rows can't be set aside by it. One of a row gives NULL there, else a struct of its value,
     * one that gets rows by Arrow any value: its flag says which rows these are.
     */
    private PythonUDF guarded(PythonUDF udf, int evalType) {
      if (isGuarded(udf)) {
        return null;
      }
      List chain = new ArrayList();
      for (PythonUDF inner = udf; inner != null; inner = innerOf(inner)) {
        if (inner.evalType() != evalType || !inner.udfDeterministic()) {
          return null;
        }
        chain.add(0, inner);
      }
      String types = typesOf((PythonUDF) chain.get(0));
      if (types == null || evalType != PickledCall.BY_PICKLE && !isOfBatches(udf, (PythonUDF) chain.get(0))) {
        return null;
      }
      for (int i = 0; i < chain.size() && chain.size() > 1; i++) {
        if (!((PythonUDF) chain.get(i)).func().broadcastVars().isEmpty()) {
          return null;
        }
      }
      PickledCall command =
          evalType == PickledCall.BY_PICKLE
              ? new PickledCall("guarded_function", "guarded").bytes(reports)
              : new PickledCall("guarded_batches", "guarded_values").text(String.valueOf(evalType));
      command.text(recordsMax).text(String.valueOf(udf.resultId().id())).text(types);
      for (int i = 0; i < chain.size(); i++) {
        PythonUDF function = (PythonUDF) chain.get(i);
        command.text(function.name()).text(function.dataType().json()).bytes(PickledCall.codeOf(function.func()));
      }
      DataType result = udf.dataType();
      if (evalType == PickledCall.BY_PICKLE) {
        result = new StructType(new StructField[] {new StructField(FailingGroups.KEPT, result, true, Metadata.empty())});
      }
      return new PythonUDF(
          udf.name(), command.in(udf.func()), result, ((PythonUDF) chain.get(0)).children(), evalType, true, udf.resultId());
    }

    /** Says of each row whether the function before it did not fail there, and names those on which it did, by the texts that Spark makes of arguments. */
    private PythonUDF flag(PythonUDF udf, int evalType) {
      PythonUDF first = udf;
      for (PythonUDF inner = udf; inner != null; inner = innerOf(inner)) {
        first = inner;
      }
      PickledCall command =
          new PickledCall("guarded_batches", "kept_flags")
              .text(String.valueOf(evalType))
              .bytes(reports)
              .text(recordsMax)
              .text(String.valueOf(udf.resultId().id()))
              .text(typesOf(first));
      List texts = new ArrayList();
      scala.collection.Iterator arguments = first.children().iterator();
      while (arguments.hasNext()) {
        texts.add(FailingGroups.asText((Expression) arguments.next()));
      }
      return new PythonUDF(
          PickledCall.FLAG + udf.resultId().id(),
          command.in(udf.func()),
          DataTypes.BooleanType,
          PassingRows.listed(texts),
          evalType,
          true,
          NamedExpression$.MODULE$.newExprId());
    }

    /** Whether a function that gets rows by Arrow can be called again on some of them: with arguments, which are the same each time, and a value that is no frame. */
    private static boolean isOfBatches(PythonUDF udf, PythonUDF first) {
      scala.collection.Iterator arguments = first.children().iterator();
      boolean hasArguments = arguments.hasNext();
      while (arguments.hasNext()) {
        if (!((Expression) arguments.next()).deterministic()) {
          return false;
        }
      }
      return hasArguments && !(udf.dataType() instanceof StructType);
    }

    /** The types of a function's arguments with `|` between; null where no condition names a row by them. */
    private static String typesOf(PythonUDF first) {
      StringBuilder types = new StringBuilder();
      scala.collection.Iterator arguments = first.children().iterator();
      while (arguments.hasNext()) {
        Expression argument = (Expression) arguments.next();
        String type = argument.dataType().catalogString();
        boolean isNamed = argument.getClass().getSimpleName().equals("NamedArgumentExpression");
        if (isNamed || hasFunction(argument) || !FailingGroups.isNameable(type)) {
          return null;
        }
        types.append(types.length() == 0 ? "" : "|").append(type);
      }
      return types.toString();
    }

    private static boolean isGuarded(PythonUDF udf) {
      return udf.name().startsWith(FailingGroups.OF_GROUPS)
          || udf.dataType() instanceof StructType
          && ((StructType) udf.dataType()).size() == 1
          && ((StructType) udf.dataType()).fieldNames()[0].equals(FailingGroups.KEPT);
    }

    /** The function whose value another gets as it is; null where it gets values of the plan. */
    private static PythonUDF innerOf(PythonUDF udf) {
      boolean isChained = udf.children().size() == 1 && udf.children().head() instanceof PythonUDF;
      return isChained ? (PythonUDF) udf.children().head() : null;
    }

    private static boolean hasFunction(Expression expression) {
      if (expression instanceof PythonUDF) {
        return true;
      }
      scala.collection.Iterator children = expression.children().iterator();
      while (children.hasNext()) {
        if (hasFunction((Expression) children.next())) {
          return true;
        }
      }
      return false;
    }
  }
}
