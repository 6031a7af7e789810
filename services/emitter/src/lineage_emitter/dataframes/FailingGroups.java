package lineage;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.KnownFloatingPointNormalized;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.PythonUDAF;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.UnixMicros;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;

/**
 * Has plans go on without the groups on which a Python function of groups fails: worker/guarded_groups.py says how; compiled as PlanText.java is.
 * FailingRows.java calls it.
 */
public class FailingGroups {
  /** What the name of a column is that says which rows or groups are left. */
  public static final String KEPT = "__lineage_kept";

  /** What the names of functions of groups begin with that set groups aside. */
  public static final String OF_GROUPS = "__lineage_groups:";

  private static final Set NAMEABLE =
      new HashSet(
          Arrays.asList(
              new String[] {
                "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "date", "timestamp", "void"
              }));
  private static final Set LIMITS =
      new HashSet(Arrays.asList(new String[] {"GlobalLimit", "LocalLimit", "Offset", "Tail"}));
  private static final Set GROUPED =
      new HashSet(Arrays.asList(new String[] {"FlatMapGroupsInPandas", "FlatMapGroupsInArrow"}));
  private static final Set COGROUPED =
      new HashSet(Arrays.asList(new String[] {"FlatMapCoGroupsInPandas", "FlatMapCoGroupsInArrow"}));

  /** By function and the node that calls it, of all applications of this JVM, the number under which groups are reported. */
  private static final Map NUMBERS = new ConcurrentHashMap();

  private final byte[] reports;
  private final String recordsMax;

  /** For who compiles it. */
  public FailingGroups() {
    this(new byte[0], "");
  }

  /** As of `FailingRows`. */
  public FailingGroups(byte[] reports, String recordsMax) {
    this.reports = reports;
    this.recordsMax = recordsMax;
  }

  /** Whether a condition names rows by their values of a type. */
  public static boolean isNameable(String type) {
    return NAMEABLE.contains(type) || type.startsWith("decimal(");
  }

  /** Whether a node of a plan passes some of its rows on, whichever these are. */
  public static boolean isLimit(LogicalPlan plan) {
    return LIMITS.contains(plan.getClass().getSimpleName());
  }

  /** Whether a limit stands below: Spark may have moved it there from above, where it would take other rows in the place of those that fail. */
  public static boolean isCut(LogicalPlan plan) {
    if (isLimit(plan)) {
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

  /** A column that says which rows or groups are left, or holds the values of those that are. */
  public static AttributeReference column(DataType type) {
    return new AttributeReference(KEPT, type, true, Metadata.empty(), NamedExpression$.MODULE$.newExprId(), PassingRows.listed(new ArrayList()));
  }

  /**
   * A value as text, by which rows are told. Functions get the same column where their arguments are equal, and may change it: behind a tag, which
   * no program writes, it is one of its own.
   */
  public static Expression asText(Expression value) {
    String type = value.dataType().catalogString();
    // As numbers and times reach pandas, some can't be told from each other.
    Expression named = type.equals("timestamp") ? (Expression) new UnixMicros(value) : value;
    return new KnownFloatingPointNormalized(
        type.equals("string") ? named : (Expression) new Cast(named, DataTypes.StringType, scala.Option.apply(null)));
  }

  /** What a Python function makes of groups, of those alone on which it does not fail; the node itself where it calls none that may be guarded. */
  public LogicalPlan withoutFailing(LogicalPlan node) {
    String name = node.getClass().getSimpleName();
    if (GROUPED.contains(name)) {
      return withoutFailingGroups(node);
    }
    if (COGROUPED.contains(name)) {
      return withoutFailingPairs(node);
    }
    return node instanceof Aggregate ? withoutFailingAggregates((Aggregate) node) : node;
  }

  /** Of a group that it fails on, a function gives no rows. */
  private LogicalPlan withoutFailingGroups(LogicalPlan node) {
    Object[] arguments = argumentsOf(node);
    PythonUDF udf = (PythonUDF) arguments[1];
    String types = typesOfKeys(((scala.collection.Seq) arguments[0]).iterator());
    boolean isOfGroups = udf.evalType() == PickledCall.PANDAS_GROUPS || udf.evalType() == PickledCall.ARROW_GROUPS;
    if (types == null || !isOfGroups || !mayGuard(udf) || isCut((LogicalPlan) node.children().head())) {
      return node;
    }
    arguments[1] = guarded(udf, numberOf(udf.resultId(), node), "guarded_groups", types);
    return (LogicalPlan) node.makeCopy(arguments);
  }

  /** Of a pair of groups of one key that it fails on, a function gives no rows. */
  private LogicalPlan withoutFailingPairs(LogicalPlan node) {
    Object[] arguments = argumentsOf(node);
    PythonUDF udf = (PythonUDF) arguments[2];
    String[] types = new String[2];
    for (int side = 0; side < 2; side++) {
      LogicalPlan below = (LogicalPlan) arguments[4 + side];
      int count = ((Integer) arguments[side]).intValue();
      types[side] = isCut(below) ? null : typesOfKeys(((scala.collection.Seq) below.output().take(count)).iterator());
    }
    boolean isOfPairs = udf.evalType() == PickledCall.PANDAS_PAIRS || udf.evalType() == PickledCall.ARROW_PAIRS;
    if (types[0] == null || !types[0].equals(types[1]) || !isOfPairs || !mayGuard(udf)) {
      return node;
    }
    arguments[2] = guarded(udf, numberOf(udf.resultId(), node), "guarded_pairs", types[0]);
    return (LogicalPlan) node.makeCopy(arguments);
  }

  private static Object[] argumentsOf(TreeNode node) {
    Object[] arguments = new Object[((scala.Product) node).productArity()];
    for (int n = 0; n < arguments.length; n++) {
      arguments[n] = ((scala.Product) node).productElement(n);
    }
    return arguments;
  }

  /**
   * The number under which a function reports groups. The same function may be called by several nodes (a column that is used twice, or a plan in
   * which other columns are left out), each with other rows of one key: a group that fails in one of them may pass in another.
   */
  private static ExprId numberOf(ExprId function, LogicalPlan node) {
    String key = function.id() + ":" + node.semanticHash();
    NUMBERS.putIfAbsent(key, NamedExpression$.MODULE$.newExprId());
    return (ExprId) NUMBERS.get(key);
  }

  private static boolean mayGuard(PythonUDF udf) {
    return udf.udfDeterministic() && !udf.name().startsWith(OF_GROUPS);
  }

  private PythonUDF guarded(PythonUDF udf, ExprId number, String function, String types) {
    PickledCall command =
        new PickledCall("guarded_groups", function)
            .bytes(reports)
            .text(recordsMax)
            .text(String.valueOf(number.id()))
            .text(types)
            .text(udf.name())
            .text(udf.dataType().json())
            .bytes(PickledCall.codeOf(udf.func()));
    return new PythonUDF(
        OF_GROUPS + udf.name(), command.in(udf.func()), udf.dataType(), udf.children(), udf.evalType(), true, number);
  }

  /** The types of the columns that name groups with `|` between; null where their values, as functions get them, name none for sure. */
  private static String typesOfKeys(scala.collection.Iterator keys) {
    StringBuilder types = new StringBuilder();
    while (keys.hasNext()) {
      String type = ((Attribute) keys.next()).dataType().catalogString();
      if (type.equals("timestamp") || type.equals("void") || !isNameable(type)) {
        return null;
      }
      types.append(types.length() == 0 ? "" : "|").append(type);
    }
    return types.toString();
  }

  /**
   * An aggregation without the groups on which one of its Python functions fails. Each function is followed by one that says whether it failed, which
   * gets the group's key, and a filter above leaves the group out, before anything is computed of its values.
   */
  private LogicalPlan withoutFailingAggregates(Aggregate node) {
    String types = typesOfAggregateKeys(node);
    if (types == null || isCut(node.child())) {
      return node;
    }
    List functions = new ArrayList();
    scala.collection.Iterator all = node.aggregateExpressions().iterator();
    while (all.hasNext()) {
      if (!addFunctions((Expression) all.next(), functions)) {
        return node;
      }
    }
    if (functions.isEmpty()) {
      return node;
    }
    List computed = new ArrayList();
    List texts = new ArrayList();
    scala.collection.Iterator keys = node.groupingExpressions().iterator();
    while (keys.hasNext()) {
      Attribute key = (Attribute) keys.next();
      computed.add(key);
      texts.add(asText(key));
    }
    List values = new ArrayList();
    List flags = new ArrayList();
    Expression condition = null;
    for (int n = 0; n < functions.size(); n++) {
      AggregateExpression function = (AggregateExpression) functions.get(n);
      PythonUDAF udaf = (PythonUDAF) function.aggregateFunction();
      ExprId id = numberOf(udaf.resultId(), node);
      String number = String.valueOf(id.id());
      PickledCall command =
          new PickledCall("guarded_groups", "guarded_aggregate")
              .text(String.valueOf(kindOf(udaf)))
              .text(recordsMax)
              .text(number)
              .text(types)
              .text(udaf.name())
              .text(udaf.dataType().json())
              .bytes(PickledCall.codeOf(udaf.func()));
      AttributeReference value = column(udaf.dataType());
      values.add(value);
      PythonUDAF guarded =
          with(udaf, OF_GROUPS + udaf.name(), command, udaf.dataType(), udaf.children(), id);
      computed.add(named(with(function, guarded, function.resultId()), value));
      PickledCall flag =
          new PickledCall("guarded_groups", "kept_group")
              .text(String.valueOf(kindOf(udaf)))
              .bytes(reports)
              .text(recordsMax)
              .text(number)
              .text(types);
      AttributeReference kept = column(DataTypes.BooleanType);
      ExprId other = NamedExpression$.MODULE$.newExprId();
      PythonUDAF flagging = with(udaf, PickledCall.FLAG + number, flag, DataTypes.BooleanType, PassingRows.listed(texts), other);
      flags.add(named(with(function, flagging, NamedExpression$.MODULE$.newExprId()), kept));
      condition = condition == null ? (Expression) kept : new And(condition, kept);
    }
    computed.addAll(flags);
    List results = new ArrayList();
    all = node.aggregateExpressions().iterator();
    while (all.hasNext()) {
      results.add(byValues((Expression) all.next(), functions, values));
    }
    Object[] arguments = argumentsOf(node);
    arguments[1] = PassingRows.listed(computed);
    return new Project(PassingRows.listed(results), new Filter(condition, (LogicalPlan) node.makeCopy(arguments)));
  }

  /** As `typesOfKeys`: Spark makes texts of these keys. */
  private static String typesOfAggregateKeys(Aggregate node) {
    StringBuilder types = new StringBuilder();
    scala.collection.Iterator keys = node.groupingExpressions().iterator();
    while (keys.hasNext()) {
      Object key = keys.next();
      String type = key instanceof Attribute ? ((Attribute) key).dataType().catalogString() : "";
      if (type.equals("void") || !isNameable(type)) {
        return null;
      }
      types.append(types.length() == 0 ? "" : "|").append(type);
    }
    // Without a key all rows are one group, and would all be set aside.
    return types.length() == 0 ? null : types.toString();
  }

  /** Add the aggregates of an expression, equal ones once; false: one is none that may be guarded. */
  private static boolean addFunctions(Expression expression, List functions) {
    if (expression instanceof AggregateExpression) {
      AggregateExpression function = (AggregateExpression) expression;
      if (!mayGuard(function)) {
        return false;
      }
      if (placeOf(function, functions) < 0) {
        functions.add(function);
      }
      return true;
    }
    scala.collection.Iterator children = expression.children().iterator();
    while (children.hasNext()) {
      if (!addFunctions((Expression) children.next(), functions)) {
        return false;
      }
    }
    return true;
  }

  private static boolean mayGuard(AggregateExpression function) {
    if (!(function.aggregateFunction() instanceof PythonUDAF) || function.isDistinct() || function.filter().isDefined()) {
      return false;
    }
    PythonUDAF udaf = (PythonUDAF) function.aggregateFunction();
    boolean isKnown = kindOf(udaf) == PickledCall.PANDAS_AGGREGATES || kindOf(udaf) == PickledCall.ARROW_AGGREGATES;
    boolean isOther = udaf.name().startsWith(OF_GROUPS) || udaf.name().startsWith(PickledCall.FLAG);
    if (!isKnown || isOther || !udaf.deterministic() || udaf.children().isEmpty()) {
      return false;
    }
    return !(udaf.dataType() instanceof StructType);
  }

  /** How an aggregate gets the rows of a group, by Spark's number; before Spark 4 there is one way. */
  private static int kindOf(PythonUDAF udaf) {
    Object kind = udaf.productElement(5);
    return kind instanceof Integer ? ((Integer) kind).intValue() : PickledCall.PANDAS_AGGREGATES;
  }

  private static int placeOf(AggregateExpression function, List functions) {
    for (int n = 0; n < functions.size(); n++) {
      if (((Expression) functions.get(n)).semanticEquals(function)) {
        return n;
      }
    }
    return -1;
  }

  /** An expression over the values of its aggregates. */
  private static Expression byValues(Expression expression, List functions, List values) {
    if (expression instanceof AggregateExpression) {
      return (Expression) values.get(placeOf((AggregateExpression) expression, functions));
    }
    List children = new ArrayList();
    boolean changed = false;
    scala.collection.Iterator all = expression.children().iterator();
    while (all.hasNext()) {
      Expression child = (Expression) all.next();
      Expression other = byValues(child, functions, values);
      changed |= other != child;
      children.add(other);
    }
    return changed ? (Expression) expression.withNewChildren(PassingRows.listed(children)) : expression;
  }

  private static Alias named(Expression value, Attribute column) {
    List none = new ArrayList();
    return new Alias(value, column.name(), column.exprId(), PassingRows.listed(none), scala.Option.apply(null), PassingRows.listed(none));
  }

  private static PythonUDAF with(
      PythonUDAF udaf, String name, PickledCall command, DataType type, scala.collection.Seq children, ExprId id) {
    Object[] arguments = argumentsOf(udaf);
    arguments[0] = name;
    arguments[1] = command.in(udaf.func());
    arguments[2] = type;
    arguments[3] = children;
    arguments[arguments.length - 1] = id;
    return (PythonUDAF) ((TreeNode) udaf).makeCopy(arguments);
  }

  private static AggregateExpression with(AggregateExpression of, PythonUDAF function, ExprId id) {
    Object[] arguments = argumentsOf(of);
    arguments[0] = function;
    arguments[arguments.length - 1] = id;
    return (AggregateExpression) ((TreeNode) of).makeCopy(arguments);
  }
}
