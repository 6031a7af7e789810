package lineage;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.logical.BatchEvalPython;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.collection.mutable.ListBuffer;

/**
 * Has plans go on without the rows on which a Python function of a row fails: set_aside.py says how; compiled as PlanText.java is.
 */
public class FailingRows {
  private Guarding rule;

  public FailingRows() {}

  private FailingRows(Guarding rule) {
    this.rule = rule;
  }

  /** A rule for one captured application: `reports` is the pickled accumulator that its tasks report to. */
  public FailingRows of(byte[] reports, int recordsMax) {
    return new FailingRows(new Guarding(reports, String.valueOf(recordsMax)));
  }

  /** Have the rule change the plans of a session from now on, in the place of one of an application that has ended. */
  public void install(ExperimentalMethods methods) {
    ListBuffer rules = new ListBuffer();
    boolean isThere = false;
    scala.collection.Iterator all = methods.extraOptimizations().iterator();
    while (all.hasNext()) {
      Object other = all.next();
      isThere |= other == rule;
      if (!(other instanceof Guarding) || other == rule) {
        rules.$plus$eq(other);
      }
    }
    if (!isThere) {
      rules.$plus$eq(rule);
      methods.extraOptimizations_$eq(rules.toList());
    }
  }

  /** The application has ended: plans that are optimised from now on stay what they are. */
  public void end() {
    rule.ended = true;
  }

  private static class Guarding extends Rule {
    static final String KEPT = "__lineage_kept";
    static final int BY_PICKLE = 100;
    private static final Set NAMEABLE =
        new HashSet(
            Arrays.asList(
                new String[] {
                  "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "date", "timestamp", "void"
                }));

    private static final Set REWRITES =
        new HashSet(
            Arrays.asList(
                new String[] {
                  "ReplaceData", "WriteDelta", "MergeRows", "MergeIntoTable", "UpdateTable", "DeleteFromTable", "DeltaMergeInto", "DeltaUpdateTable", "DeltaDelete", "Subquery"
                }));
    private static final Set LIMITS =
        new HashSet(Arrays.asList(new String[] {"GlobalLimit", "LocalLimit", "Offset", "Tail"}));
    private static final Set STOPPING =
        new HashSet(
            Arrays.asList(new String[] {"MapInPandas", "MapInArrow", "PythonMapInArrow", "MapPartitions", "MapPartitionsInR", "MapPartitionsInRWithArrow", "ScriptTransformation"}));
    private static final String DELTA_COMMANDS = "org.apache.spark.sql.delta.commands.";

    private final byte[] reports;
    private final String recordsMax;
    volatile boolean ended;

    Guarding(byte[] reports, String recordsMax) {
      this.reports = reports;
      this.recordsMax = recordsMax;
    }

    public TreeNode apply(TreeNode plan) {
      LogicalPlan top = (LogicalPlan) plan;
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
          LIMITS.contains(name) || STOPPING.contains(name) || stops && !name.equals("Sort") && !name.equals("Aggregate");
      ListBuffer below = new ListBuffer();
      boolean changed = false;
      scala.collection.Iterator children = plan.children().iterator();
      while (children.hasNext()) {
        LogicalPlan child = (LogicalPlan) children.next();
        LogicalPlan other = rewritten(child, stopsBelow);
        changed |= other != child;
        below.$plus$eq(other);
      }
      LogicalPlan node = changed ? (LogicalPlan) plan.withNewChildren(below.toList()) : plan;
      return node instanceof BatchEvalPython && !stops ? withoutFailing((BatchEvalPython) node) : node;
    }

    /** The results of Python functions, of the rows alone on which none of them fails. */
    private LogicalPlan withoutFailing(BatchEvalPython node) {
      if (isCut(node.child())) {
        return node;
      }
      ListBuffer functions = new ListBuffer();
      ListBuffer results = new ListBuffer();
      ListBuffer columns = new ListBuffer();
      scala.collection.Iterator passed = node.child().output().iterator();
      while (passed.hasNext()) {
        columns.$plus$eq(passed.next());
      }
      Expression condition = null;
      scala.collection.Iterator udfs = node.udfs().iterator();
      scala.collection.Iterator attributes = node.resultAttrs().iterator();
      while (udfs.hasNext()) {
        PythonUDF udf = (PythonUDF) udfs.next();
        Attribute result = (Attribute) attributes.next();
        PythonUDF guarded = guarded(udf);
        if (guarded == null) {
          functions.$plus$eq(udf);
          results.$plus$eq(result);
          columns.$plus$eq(result);
          continue;
        }
        AttributeReference kept =
            new AttributeReference(
                KEPT, guarded.dataType(), true, Metadata.empty(), NamedExpression$.MODULE$.newExprId(), new ListBuffer().toList());
        functions.$plus$eq(guarded);
        results.$plus$eq(kept);
        columns.$plus$eq(
            new Alias(
                new GetStructField(kept, 0, scala.Option.apply(null)),
                result.name(),
                result.exprId(),
                result.qualifier(),
                scala.Option.apply(null),
                new ListBuffer().toList()));
        Expression isKept = new IsNotNull(kept);
        condition = condition == null ? isKept : new And(condition, isKept);
      }
      if (condition == null) {
        return node;
      }
      LogicalPlan computed = new BatchEvalPython(functions.toList(), results.toList(), node.child());
      return new Project(columns.toList(), new Filter(condition, computed));
    }

    /** Whether a limit stands below: Spark may have moved it there from above, where it would take other rows in the place of those that fail. */
    private static boolean isCut(LogicalPlan plan) {
      if (LIMITS.contains(plan.getClass().getSimpleName())) {
        return true;
      }
      scala.collection.Iterator children = plan.children().iterator();
      while (children.hasNext()) {
        if (isCut((LogicalPlan) children.next())) {
          return true;
        }
      }
      return false;
    }

    /** A function that gives NULL where it fails, else a struct of its value; null where rows can't be set aside by it. */
    private PythonUDF guarded(PythonUDF udf) {
      if (isGuarded(udf)) {
        return null;
      }
      List chain = new ArrayList();
      for (PythonUDF inner = udf; inner != null; inner = innerOf(inner)) {
        if (inner.evalType() != BY_PICKLE || !inner.udfDeterministic()) {
          return null;
        }
        chain.add(0, inner);
      }
      PythonUDF first = (PythonUDF) chain.get(0);
      StringBuilder types = new StringBuilder();
      scala.collection.Iterator arguments = first.children().iterator();
      while (arguments.hasNext()) {
        Expression argument = (Expression) arguments.next();
        String type = argument.dataType().catalogString();
        boolean isNamed = argument.getClass().getSimpleName().equals("NamedArgumentExpression");
        if (isNamed || hasFunction(argument) || !(NAMEABLE.contains(type) || type.startsWith("decimal("))) {
          return null;
        }
        types.append(types.length() == 0 ? "" : "|").append(type);
      }
      for (int i = 0; i < chain.size() && chain.size() > 1; i++) {
        if (!((PythonUDF) chain.get(i)).func().broadcastVars().isEmpty()) {
          return null;
        }
      }
      PythonFunction code = udf.func();
      SimplePythonFunction function =
          new SimplePythonFunction(
              command(udf.resultId().id(), types.toString(), chain),
              code.envVars(),
              code.pythonIncludes(),
              code.pythonExec(),
              code.pythonVer(),
              code.broadcastVars(),
              code.accumulator());
      StructField field = new StructField(KEPT, udf.dataType(), true, Metadata.empty());
      DataType result = new StructType(new StructField[] {field});
      return new PythonUDF(udf.name(), function, result, first.children(), BY_PICKLE, true, udf.resultId());
    }

    private static boolean isGuarded(PythonUDF udf) {
      return udf.dataType() instanceof StructType
          && ((StructType) udf.dataType()).size() == 1
          && ((StructType) udf.dataType()).fieldNames()[0].equals(KEPT);
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

    /** The pickle of a call of worker/guarded_function.py: code of the functions, the innermost first, beside what is reported of them. */
    private byte[] command(long id, String types, List chain) {
      ByteArrayOutputStream out = new ByteArrayOutputStream();
      out.write(0x80);
      out.write(3);
      ascii("clineage_emitter.worker.guarded_function\nguarded\n(", out);
      bytes(reports, out);
      text(recordsMax, out);
      text(String.valueOf(id), out);
      text(types, out);
      for (int i = 0; i < chain.size(); i++) {
        PythonUDF udf = (PythonUDF) chain.get(i);
        text(udf.name(), out);
        text(udf.dataType().json(), out);
        byte[] code = new byte[udf.func().command().length()];
        scala.collection.Iterator all = udf.func().command().iterator();
        for (int n = 0; all.hasNext(); n++) {
          code[n] = ((Number) all.next()).byteValue();
        }
        bytes(code, out);
      }
      ascii("tR.", out);
      return out.toByteArray();
    }

    private static void ascii(String text, ByteArrayOutputStream out) {
      byte[] written = text.getBytes(StandardCharsets.US_ASCII);
      out.write(written, 0, written.length);
    }

    private static void text(String text, ByteArrayOutputStream out) {
      byte[] written = text.getBytes(StandardCharsets.UTF_8);
      out.write('X');
      sized(written, out);
    }

    private static void bytes(byte[] written, ByteArrayOutputStream out) {
      out.write('B');
      sized(written, out);
    }

    private static void sized(byte[] written, ByteArrayOutputStream out) {
      for (int shift = 0; shift < 32; shift += 8) {
        out.write(written.length >>> shift);
      }
      out.write(written, 0, written.length);
    }
  }
}
