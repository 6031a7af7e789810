package lineage;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.EqualNullSafe;
import org.apache.spark.sql.catalyst.expressions.EqualTo;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.ScalaUDF;
import org.apache.spark.sql.catalyst.plans.Inner$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.types.DataTypes;
import scala.collection.mutable.ListBuffer;

/**
 * What a batch gives of its rows and of those of a state, as plans over rows of streams; compiled as PlanText.java is. Which rows a
 * state held when the batch ran is no part of its plan: a condition that a recipe can't say stands for it.
 */
public class StreamState {
  /** The name of a condition that stands for the state. */
  public static final String NAME = "lineage.state";

  /** Those rows that a state let through. */
  public LogicalPlan chosen(LogicalPlan rows) {
    ListBuffer none = new ListBuffer();
    return new Filter(
        new ScalaUDF(
            null,
            DataTypes.BooleanType,
            none.toList(),
            new ListBuffer().toList(),
            scala.Option.apply(null),
            scala.Option.apply(NAME),
            false,
            false),
        rows);
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
    String kind = kind(join);
    ListBuffer parts = new ListBuffer();
    parts.$plus$eq(pairs(of, left.get(0), right.get(2)));
    parts.$plus$eq(pairs(of, left.get(1), right.get(0)));
    if (kind.equals("LeftOuter") || kind.equals("FullOuter")) {
      parts.$plus$eq(alone(of, (LogicalPlan) left.get(2), true));
    }
    if (kind.equals("RightOuter") || kind.equals("FullOuter")) {
      parts.$plus$eq(alone(of, (LogicalPlan) right.get(2), false));
    }
    return chosen(new Union(parts.toList(), false, false));
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
    return new Alias(
        new Literal(null, column.dataType()),
        column.name(),
        column.exprId(),
        column.qualifier(),
        scala.Option.apply(null),
        new ListBuffer().toList());
  }
}
