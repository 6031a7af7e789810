package lineage;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.PythonFuncExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.plans.logical.ArrowEvalPython;
import org.apache.spark.sql.catalyst.plans.logical.BatchEvalPython;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.AtomicType;

/**
 * Lets calls of Python functions of a plan be timed, in worker/timed_function.py; compiled as PlanText.java is. Each function is called as before:
 * its code is a call that has the program's own code as its last argument.
 */
public class TimedFunctions {
  private static final PickledCall TIMED = new PickledCall("timed_function", "timed");

  private final String folder;
  private final byte[] reports;
  private final boolean texts;
  private final int charactersMax;

  /** For who compiles it. */
  public TimedFunctions() {
    this("", new byte[0], false, 0);
  }

  /** `reports`: the pickled accumulator that tasks report to. Else as of `WatchedRows`. */
  public TimedFunctions(String folder, byte[] reports, boolean texts, int charactersMax) {
    this.folder = folder;
    this.reports = reports;
    this.texts = texts;
    this.charactersMax = charactersMax;
  }

  /** Whether a node of a plan calls Python functions of a row, or of batches of rows. */
  public static boolean calls(LogicalPlan plan) {
    return plan instanceof BatchEvalPython || plan instanceof ArrowEvalPython;
  }

  /** Whether a node calls Python functions that can't be timed. */
  public static boolean hasUntimed(LogicalPlan plan) {
    return hasUntimed(plan.expressions().iterator(), calls(plan));
  }

  private static boolean hasUntimed(scala.collection.Iterator expressions, boolean mayTime) {
    while (expressions.hasNext()) {
      Expression expression = (Expression) expressions.next();
      boolean isTimed = mayTime && expression instanceof PythonUDF && (mayTime((PythonUDF) expression) || PickledCall.isFlag((PythonUDF) expression));
      if (expression instanceof PythonFuncExpression && !isTimed || hasUntimed(expression.children().iterator(), mayTime)) {
        return true;
      }
    }
    return false;
  }

  /** Whether functions of a node can be timed. */
  public static boolean isTimed(LogicalPlan plan) {
    scala.collection.Iterator all = calls(plan) ? udfs(plan).iterator() : null;
    while (all != null && all.hasNext()) {
      if (isTimed((PythonUDF) all.next())) {
        return true;
      }
    }
    return false;
  }

  private static boolean isTimed(PythonUDF udf) {
    return TIMED.isBeginOf(udf.func());
  }

  private static scala.collection.Iterable udfs(LogicalPlan plan) {
    return plan instanceof BatchEvalPython ? ((BatchEvalPython) plan).udfs() : ((ArrowEvalPython) plan).udfs();
  }

  private static LogicalPlan with(LogicalPlan plan, List udfs) {
    if (plan instanceof BatchEvalPython) {
      BatchEvalPython rows = (BatchEvalPython) plan;
      return (LogicalPlan) new BatchEvalPython(PassingRows.listed(udfs), rows.resultAttrs(), rows.child());
    }
    ArrowEvalPython batches = (ArrowEvalPython) plan;
    return (LogicalPlan) new ArrowEvalPython(PassingRows.listed(udfs), batches.resultAttrs(), batches.child(), batches.evalType());
  }

  /**
   * A node whose functions can be timed. `first`: the number of the first of them. `listed` gets for each its number, its name, what it is, and the
   * line of the action.
   */
  public LogicalPlan timed(LogicalPlan plan, int first, String site, List listed) throws IOException {
    List functions = new ArrayList();
    scala.collection.Iterator all = udfs(plan).iterator();
    while (all.hasNext()) {
      functions.add(timed((PythonUDF) all.next(), first, site, listed));
    }
    return with(plan, functions);
  }

  private PythonUDF timed(PythonUDF udf, int first, String site, List listed) throws IOException {
    List arguments = new ArrayList();
    scala.collection.Iterator all = udf.children().iterator();
    while (all.hasNext()) {
      Expression argument = (Expression) all.next();
      arguments.add(argument instanceof PythonUDF ? timed((PythonUDF) argument, first, site, listed) : argument);
    }
    if (!mayTime(udf)) {
      return udf;
    }
    String[] facts = {"f" + (first + listed.size()), udf.name(), "udf", site};
    listed.add(facts);
    Map document = new LinkedHashMap();
    document.put("folder", folder);
    document.put("node", facts);
    document.put("texts", Boolean.valueOf(texts));
    document.put("characters_max", Integer.valueOf(charactersMax));
    document.put("of_rows", Boolean.valueOf(isOfRows(udf)));
    List names = new ArrayList();
    List types = new ArrayList();
    document.put("unnamed", named(udf, names, types));
    document.put("by_arrow", Boolean.valueOf(udf.evalType() != PickledCall.BY_PICKLE));
    document.put("names", names);
    document.put("types", types);
    PythonFunction function =
        new PickledCall("timed_function", "timed")
            .text(new ObjectMapper().writeValueAsString(document))
            .bytes(reports)
            .bytes(PickledCall.codeOf(udf.func()))
            .in(udf.func());
    return with(udf, function, arguments);
  }

  /** Whether a function is of a row or of a batch of them, and the program's own: not what says which rows another one did not fail on. */
  private static boolean mayTime(PythonUDF udf) {
    int kind = udf.evalType();
    return (isOfRows(udf) || kind == PickledCall.PANDAS || kind == PickledCall.ARROW) && !PickledCall.isFlag(udf);
  }

  private static boolean isOfRows(PythonUDF udf) {
    return udf.evalType() == PickledCall.BY_PICKLE || udf.evalType() == PickledCall.ARROW_ROWS;
  }

  /** Names and types of a function's arguments, by which a trace finds the rows of a call; what it gives says why there is no such trace. */
  private static String named(PythonUDF udf, List names, List types) {
    scala.collection.Iterator all = udf.children().iterator();
    String unnamed = all.hasNext() ? "" : "the function has no arguments by which rows could be told";
    if (!isOfRows(udf)) {
      unnamed = "the function gets rows in batches: which row of it took long is not known";
    }
    Set taken = new HashSet();
    while (all.hasNext()) {
      Expression argument = (Expression) all.next();
      String type = argument.dataType().catalogString();
      names.add(nameOf(argument, names.size() + 1, taken));
      types.add(type.length() > 80 ? type.substring(0, 80) : type);
      if (argument instanceof PythonUDF) {
        unnamed = "the function gets the value of " + ((PythonUDF) argument).name() + ", whose own calls name rows";
      } else if (argument.getClass().getSimpleName().equals("NamedArgumentExpression")) {
        unnamed = "the function is called with names of arguments, by which no trace finds rows";
      } else if (!(argument.dataType() instanceof AtomicType) || type.equals("binary") || type.equals("variant") || type.startsWith("timestamp")) {
        unnamed = "the function gets a value of " + types.get(types.size() - 1) + ", by which no trace finds rows";
      } else if (!argument.deterministic()) {
        unnamed = "the function gets a value that is another one each time that it is computed";
      }
    }
    return unnamed;
  }

  /** A name of an argument that no other one has: that of its column, where it is one. */
  private static String nameOf(Expression argument, int number, Set taken) {
    String name = argument instanceof Attribute ? ((Attribute) argument).name() : "argument " + number;
    if (!taken.add(name.toLowerCase())) {
      name = "argument " + number;
      taken.add(name.toLowerCase());
    }
    return name;
  }

  /** The arguments of one of a node's functions, in the order of `timed`, as rows, with which a trace of its calls begins; null: there is none. */
  public static LogicalPlan arguments(LogicalPlan plan, int place) {
    List chain = new ArrayList();
    scala.collection.Iterator all = udfs(plan).iterator();
    while (all.hasNext()) {
      addFunctions((PythonUDF) all.next(), chain);
    }
    PythonUDF udf = (PythonUDF) chain.get(place);
    if (!named(udf, new ArrayList(), new ArrayList()).isEmpty()) {
      return null;
    }
    List columns = new ArrayList();
    Set taken = new HashSet();
    scala.collection.Iterator arguments = udf.children().iterator();
    for (int n = 1; arguments.hasNext(); n++) {
      Expression argument = (Expression) arguments.next();
      String name = nameOf(argument, n, taken);
      scala.collection.immutable.Seq none = (scala.collection.immutable.Seq) PassingRows.listed(new ArrayList());
      columns.add(new Alias(argument, name, NamedExpression$.MODULE$.newExprId(), none, scala.Option.apply(null), none));
    }
    return new Project(PassingRows.listed(columns), (LogicalPlan) plan.children().head());
  }

  private static void addFunctions(PythonUDF udf, List found) {
    scala.collection.Iterator all = udf.children().iterator();
    while (all.hasNext()) {
      Object argument = all.next();
      if (argument instanceof PythonUDF) {
        addFunctions((PythonUDF) argument, found);
      }
    }
    if (mayTime(udf)) {
      found.add(udf);
    }
  }

  /** A node with its functions as the program made them. */
  public static LogicalPlan plain(LogicalPlan plan) {
    List functions = new ArrayList();
    scala.collection.Iterator all = udfs(plan).iterator();
    while (all.hasNext()) {
      functions.add(plain((PythonUDF) all.next()));
    }
    return with(plan, functions);
  }

  private static PythonUDF plain(PythonUDF udf) {
    List arguments = new ArrayList();
    scala.collection.Iterator all = udf.children().iterator();
    while (all.hasNext()) {
      Object argument = all.next();
      arguments.add(argument instanceof PythonUDF ? plain((PythonUDF) argument) : argument);
    }
    PythonFunction function =
        isTimed(udf) ? PickledCall.withCode(udf.func(), TIMED.lastArgument(PickledCall.codeOf(udf.func()))) : udf.func();
    return with(udf, function, arguments);
  }

  /** A function of a plan with other code and arguments. */
  private static PythonUDF with(PythonUDF udf, PythonFunction function, List arguments) {
    return new PythonUDF(
        udf.name(), function, udf.dataType(), PassingRows.listed(arguments), udf.evalType(), udf.udfDeterministic(), udf.resultId());
  }
}
