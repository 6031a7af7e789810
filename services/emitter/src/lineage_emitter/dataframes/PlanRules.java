package lineage;

import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.rules.Rule;
import scala.collection.mutable.ListBuffer;

/** Puts rules into the optimiser of a session; compiled as PlanText.java is. */
public class PlanRules {
  /** Have a rule change the plans of a session from now on, as the last one, in the place of one of its kind, of an application that has ended. */
  public void install(ExperimentalMethods methods, Rule rule) {
    ListBuffer rules = new ListBuffer();
    boolean isThere = false;
    scala.collection.Iterator all = methods.extraOptimizations().iterator();
    while (all.hasNext()) {
      Object other = all.next();
      isThere |= other == rule;
      if (other.getClass() != rule.getClass() || other == rule) {
        rules.$plus$eq(other);
      }
    }
    if (!isThere) {
      rules.$plus$eq(rule);
      methods.extraOptimizations_$eq(rules.toList());
    }
  }
}
