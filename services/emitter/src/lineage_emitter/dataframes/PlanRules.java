package lineage;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.rules.Rule;

/** Puts rules into the optimiser of a session; compiled as PlanText.java is. */
public class PlanRules {
  /** Have a rule change the plans of a session from now on, as the last one, in the place of one of its kind, of an application that has ended. */
  public void install(ExperimentalMethods methods, Rule rule) {
    List rules = new ArrayList();
    boolean isThere = false;
    scala.collection.Iterator all = methods.extraOptimizations().iterator();
    while (all.hasNext()) {
      Object other = all.next();
      isThere |= other == rule;
      if (other.getClass() != rule.getClass() || other == rule) {
        rules.add(other);
      }
    }
    if (!isThere) {
      rules.add(rule);
      methods.extraOptimizations_$eq(PassingRows.listed(rules));
    }
  }
}
