package lineage;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.Or;
import org.apache.spark.sql.catalyst.expressions.ScalaUDF;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.collection.mutable.ListBuffer;

/**
 * What a batch gives of its rows and of those of a state, as plans over rows of streams; compiled as PlanText.java is. Which rows a
 * state held when the batch ran is no part of its plan: a condition that a recipe can't say stands for it.
 */
public class StreamState {
  /** The name of a condition that stands for the state. */
  public static final String NAME = "lineage.state";

  /** The name of one that says, too, that groups may lack rows that have their keys. */
  public static final String GROUPS = "lineage.state.groups";

  /** The name of one that says that a function with a state may have used any rows of its keys. */
  public static final String KEYS = "lineage.state.keys";

  /** In the metadata of a column of such a function's rows: the name of the key that it holds. */
  public static final String KEY = "lineage.key";

  /** The name of one that says that a run which was not recorded may have run a batch. */
  public static final String RUN = "lineage.state.run";

  /** The name of a value that was made of rows that a state held. */
  public static final String VALUE = "lineage.state.value";

  /** Nodes of which `usesKeysAlone` knows what they read their rows for. */
  private static final Set KNOWN =
      new HashSet(
          Arrays.asList(
              new String[] {
                "Project", "Filter", "Aggregate", "Join", "SubqueryAlias", "EventTimeWatermark", "UpdateEventTimeWatermarkColumn"
              }));

  /** Those rows that a state let through. */
  public LogicalPlan chosen(LogicalPlan rows) {
    return new Filter(unknown(NAME, DataTypes.BooleanType), rows);
  }

  /** `chosen`, where groups that the rows name may lack some of the rows that have their keys. */
  public LogicalPlan chosenOfGroups(LogicalPlan rows) {
    return new Filter(unknown(GROUPS, DataTypes.BooleanType), rows);
  }

  /** Rows that another run of the query may have given. */
  public LogicalPlan ofEarlierRun(LogicalPlan rows) {
    return new Filter(unknown(RUN, DataTypes.BooleanType), rows);
  }

  /** A value that no recipe can say. */
  private static Expression unknown(String name, DataType type) {
    ListBuffer none = new ListBuffer();
    return new ScalaUDF(
        null,
        type,
        none.toList(),
        new ListBuffer().toList(),
        scala.Option.apply(null),
        scala.Option.apply(name),
        true,
        false);
  }

  /**
   * The groups of an aggregate over more rows than the state had of them: of their columns just keys are known. Windows of sessions
   * depend on all rows, so groups are of the other keys. `below`: what it groups.
   */
  public LogicalPlan loosely(LogicalPlan aggregate, LogicalPlan below) throws Exception {
    Aggregate of = (Aggregate) aggregate;
    Set known = new HashSet();
    ListBuffer keys = new ListBuffer();
    scala.collection.Iterator each = of.groupingExpressions().iterator();
    while (each.hasNext()) {
      Object key = each.next();
      boolean isSession = key instanceof Attribute && ((Attribute) key).metadata().contains("spark.sessionWindow");
      if (!isSession) {
        keys.$plus$eq(key);
      }
      if (!isSession && key instanceof Attribute) {
        known.add(((Attribute) key).exprId());
      }
    }
    ListBuffer kept = new ListBuffer();
    ListBuffer columns = new ListBuffer();
    scala.collection.Iterator given = of.aggregateExpressions().iterator();
    while (given.hasNext()) {
      NamedExpression column = (NamedExpression) given.next();
      Object value = column instanceof Alias ? ((Alias) column).child() : column;
      if (value instanceof Attribute && known.contains(((Attribute) value).exprId())) {
        kept.$plus$eq(column);
        columns.$plus$eq(column.toAttribute());
      } else {
        columns.$plus$eq(named(unknown(VALUE, ((Expression) column).dataType()), column.toAttribute()));
      }
    }
    return new Project(columns.toList(), copy(of, keys.toList(), kept.toList(), below));
  }

  /**
   * The groups of an aggregate that a batch gives where it gives those that it has changed: each of all of its rows so far, of which one at least is
   * of this batch. Rows of groups that have been forgotten are dropped as late: those whose time, or the end of whose window, is not behind
   * the watermark. A group without a time is never forgotten.
   *
   * `time`: the key that is this time; null: there is none. `added`, `older`: the rows of this batch, and of those before. `before`: the watermark in ms since 1970.
   */
  public LogicalPlan changed(LogicalPlan aggregate, Object time, LogicalPlan added, LogicalPlan older, Long before) throws Exception {
    Aggregate of = (Aggregate) aggregate;
    ExprId number = NamedExpression$.MODULE$.newExprId();
    ListBuffer parts = new ListBuffer();
    parts.$plus$eq(marked(added, Boolean.TRUE, number));
    parts.$plus$eq(marked(older, Boolean.FALSE, number));
    LogicalPlan rows = new Union(parts.toList(), false, false);
    Attribute mark = (Attribute) rows.output().apply(rows.output().size() - 1);
    if (time != null) {
      Attribute key = (Attribute) time;
      Expression end = key.dataType() instanceof StructType ? new GetStructField(key, 1, scala.Option.apply(null)) : key;
      Expression open = new GreaterThan(end, new Literal(Long.valueOf(before.longValue() * 1000), end.dataType()));
      rows = new Filter(new Or(new IsNull(end), open), rows);
    }
    ListBuffer columns = new ListBuffer();
    scala.collection.Iterator given = of.aggregateExpressions().iterator();
    while (given.hasNext()) {
      columns.$plus$eq(given.next());
    }
    Alias isChanged = column(new Max(mark).toAggregateExpression(), "changed", NamedExpression$.MODULE$.newExprId());
    columns.$plus$eq(isChanged);
    LogicalPlan groups = copy(of, of.groupingExpressions(), columns.toList(), rows);
    return new Project(of.output().toList(), new Filter(isChanged.toAttribute(), groups));
  }

  /** Rows with one more column: whether they are of this batch. */
  private static LogicalPlan marked(LogicalPlan rows, Boolean isAdded, ExprId number) {
    ListBuffer columns = new ListBuffer();
    scala.collection.Iterator own = rows.output().iterator();
    while (own.hasNext()) {
      columns.$plus$eq(own.next());
    }
    columns.$plus$eq(column(new Literal(isAdded, DataTypes.BooleanType), "added", number));
    return new Project(columns.toList(), rows);
  }

  private static Alias column(Expression value, String name, ExprId number) {
    return new Alias(
        value, name, number, new ListBuffer().toList(), scala.Option.apply(null), new ListBuffer().toList());
  }

  /**
   * The rows of a function that keeps a state for each group, one for all that it makes of a group, where the program has declared which of their columns
   * hold keys (`KEY`); null: none does. `below`: what it groups.
   */
  public LogicalPlan byKeys(LogicalPlan function, LogicalPlan below) throws Exception {
    Object groups = groupsOf(function);
    ListBuffer keys = new ListBuffer();
    ListBuffer columns = new ListBuffer();
    scala.collection.Iterator given = function.output().iterator();
    while (given.hasNext()) {
      Attribute column = (Attribute) given.next();
      Attribute key = keyOf(column, (scala.collection.Iterable) groups);
      if (key != null) {
        keys.$plus$eq(named(key, column));
      }
      columns.$plus$eq(key == null ? (Object) named(unknown(VALUE, column.dataType()), column) : column);
    }
    if (keys.isEmpty()) {
      return null;
    }
    return new Filter(
        unknown(KEYS, DataTypes.BooleanType),
        new Project(columns.toList(), new Distinct(new Project(keys.toList(), below))));
  }

  /** The keys by which such a function is called: a node that may have two inputs calls them attributes of the left one. */
  private static Object groupsOf(LogicalPlan function) throws Exception {
    Method[] methods = function.getClass().getMethods();
    for (int i = 0; i < methods.length; i++) {
      String name = methods[i].getName();
      boolean gives = name.equals("groupingAttributes") || name.equals("leftAttributes");
      if (gives && methods[i].getParameterCount() == 0) {
        return methods[i].invoke(function, new Object[0]);
      }
    }
    throw new NoSuchMethodException("groupingAttributes");
  }

  /** The key that a column is declared to hold; null: none, or one of another type. */
  private static Attribute keyOf(Attribute column, scala.collection.Iterable keys) {
    if (!column.metadata().contains(KEY)) {
      return null;
    }
    // Whatever the program has put there.
    Object name = column.metadata().map().get(KEY).get();
    scala.collection.Iterator each = keys.iterator();
    while (each.hasNext()) {
      Attribute key = (Attribute) each.next();
      if (key.name().equals(name) && key.dataType().equals(column.dataType())) {
        return key;
      }
    }
    return null;
  }

  /** Versions of Spark give an aggregate more or fewer fields. */
  private static LogicalPlan copy(Aggregate of, Object keys, Object columns, LogicalPlan below) throws Exception {
    Method[] methods = Aggregate.class.getMethods();
    for (int i = 0; i < methods.length; i++) {
      if (methods[i].getName().equals("copy")) {
        Object[] fields = new Object[methods[i].getParameterCount()];
        for (int j = 0; j < fields.length; j++) {
          fields[j] = of.productElement(j);
        }
        fields[0] = keys;
        fields[1] = columns;
        fields[2] = below;
        return (LogicalPlan) methods[i].invoke(of, fields);
      }
    }
    throw new NoSuchMethodException("copy");
  }

  /**
   * Whether a plan chooses, joins and groups rows of a deduplication in it by its keys alone, directly or through columns made of
   * them. Which row it keeps of those with the same keys only its state knows, and so what the other columns hold.
   */
  public boolean usesKeysAlone(LogicalPlan plan, LogicalPlan deduplicate) {
    Map made = new HashMap();
    List used = new ArrayList();
    collectUses(plan, deduplicate, made, used);
    if (used.contains(null)) {
      return false;
    }
    Set keys = ids(((Deduplicate) deduplicate).keys().iterator());
    Set others = ids(deduplicate.output().iterator());
    others.removeAll(keys);
    Set seen = new HashSet();
    for (int i = 0; i < used.size(); i++) {
      Object[] read = ids(((Expression) used.get(i)).references().iterator()).toArray();
      for (int j = 0; j < read.length; j++) {
        if (others.contains(read[j])) {
          return false;
        }
        if (seen.add(read[j]) && made.containsKey(read[j])) {
          used.add(made.get(read[j]));
        }
      }
    }
    return true;
  }

  /**
   * What nodes between a plan and one of its nodes use for more than values: `used` gets expressions, null for a node that is not known;
   * `made` the values of columns, by their numbers.
   *
   * @return whether the plan has the node.
   */
  private static boolean collectUses(LogicalPlan plan, LogicalPlan node, Map made, List used) {
    if (plan == node) {
      return true;
    }
    boolean holds = false;
    scala.collection.Iterator below = plan.children().iterator();
    while (below.hasNext()) {
      holds |= collectUses((LogicalPlan) below.next(), node, made, used);
    }
    if (!holds) {
      return false;
    }
    String whole = plan.getClass().getName();
    if (!KNOWN.contains(whole.substring(whole.lastIndexOf('.') + 1))) {
      used.add(null);
    } else if (plan instanceof Project) {
      collectMade(((Project) plan).projectList().iterator(), made);
    } else if (plan instanceof Aggregate) {
      collectMade(((Aggregate) plan).aggregateExpressions().iterator(), made);
      addAll(((Aggregate) plan).groupingExpressions().iterator(), used);
    } else if (plan instanceof Filter || plan instanceof Join) {
      addAll(plan.expressions().iterator(), used);
    }
    return true;
  }

  private static void collectMade(scala.collection.Iterator columns, Map made) {
    while (columns.hasNext()) {
      Object column = columns.next();
      if (column instanceof Alias) {
        made.put(((Alias) column).exprId(), ((Alias) column).child());
      }
    }
  }

  private static void addAll(scala.collection.Iterator each, List all) {
    while (each.hasNext()) {
      all.add(each.next());
    }
  }

  private static Set ids(scala.collection.Iterator columns) {
    Set found = new HashSet();
    while (columns.hasNext()) {
      found.add(((NamedExpression) columns.next()).exprId());
    }
    return found;
  }

  /** A node over other inputs. */
  public LogicalPlan over(LogicalPlan plan, List inputs) {
    ListBuffer children = new ListBuffer();
    for (int i = 0; i < inputs.size(); i++) {
      children.$plus$eq(inputs.get(i));
    }
    return (LogicalPlan) plan.withNewChildren(children.toList());
  }

  /** How a join treats rows without a match; null: it is none that is known here. */
  public String kind(LogicalPlan join) {
    String whole = ((Join) join).joinType().getClass().getName();
    String name = whole.substring(whole.lastIndexOf('.') + 1);
    boolean isKnown =
        name.equals("Inner$")
            || name.equals("LeftOuter$")
            || name.equals("RightOuter$")
            || name.equals("FullOuter$")
            || name.equals("LeftSemi$");
    return isKnown ? name.substring(0, name.length() - 1) : null;
  }

  /**
   * The rows that a join of two streams may give in a batch: pairs of which one row at least is new, and where the join keeps them,
   * rows without a match, which it gives when none can come any more.
   *
   * `left`, `right`: plans of the rows of this batch, of those before it, and of both.
   */
  public LogicalPlan joined(LogicalPlan join, List left, List right) {
    Join of = (Join) join;
    ListBuffer parts = new ListBuffer();
    parts.$plus$eq(pairs(of, left.get(0), right.get(2)));
    parts.$plus$eq(pairs(of, left.get(1), right.get(0)));
    return chosen(united(of, parts, (LogicalPlan) left.get(2), (LogicalPlan) right.get(2)));
  }

  /** The rows that a join of two streams may have given in any batch, of all rows of both. */
  public LogicalPlan joinedWholly(LogicalPlan join, LogicalPlan left, LogicalPlan right) {
    ListBuffer parts = new ListBuffer();
    parts.$plus$eq(pairs((Join) join, left, right));
    return united((Join) join, parts, left, right);
  }

  /** Pairs, and rows without a match where the join keeps them. */
  private LogicalPlan united(Join of, ListBuffer parts, LogicalPlan left, LogicalPlan right) {
    String kind = kind(of);
    if (kind.equals("LeftOuter") || kind.equals("FullOuter")) {
      parts.$plus$eq(alone(of, left, true));
    }
    if (kind.equals("RightOuter") || kind.equals("FullOuter")) {
      parts.$plus$eq(alone(of, right, false));
    }
    return parts.size() == 1 ? (LogicalPlan) parts.head() : new Union(parts.toList(), false, false);
  }

  /** The pairs of two sides, with the columns of the join. Its state takes NULL for equal to NULL. */
  private static LogicalPlan pairs(Join of, Object left, Object right) {
    scala.Option condition = of.condition();
    if (condition.isDefined()) {
      condition = scala.Option.apply(loose((Expression) condition.get()));
    }
    return new Project(of.output().toList(), new Join((LogicalPlan) left, (LogicalPlan) right, Inner$.MODULE$, condition, of.hint()));
  }

  private static Expression loose(Expression condition) {
    if (condition instanceof And) {
      return new And(loose(((And) condition).left()), loose(((And) condition).right()));
    }
    return condition instanceof EqualTo
        ? new EqualNullSafe(((EqualTo) condition).left(), ((EqualTo) condition).right())
        : condition;
  }

  /** Rows of one side, with NULL for the columns of the other. */
  private static LogicalPlan alone(Join of, LogicalPlan side, boolean isLeft) {
    scala.collection.Iterator own = side.output().iterator();
    ListBuffer columns = new ListBuffer();
    int width = of.left().output().size();
    scala.collection.Iterator each = of.output().iterator();
    for (int place = 0; each.hasNext(); place++) {
      Attribute column = (Attribute) each.next();
      columns.$plus$eq(place < width == isLeft ? own.next() : nothing(column));
    }
    return new Project(columns.toList(), side);
  }

  private static Alias nothing(Attribute column) {
    return named(new Literal(null, column.dataType()), column);
  }

  /** A value under the name and number of a column. */
  private static Alias named(Expression value, Attribute column) {
    return new Alias(
        value,
        column.name(),
        column.exprId(),
        column.qualifier(),
        scala.Option.apply(null),
        new ListBuffer().toList());
  }
}
