package lineage;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.spark.executor.OutputMetrics;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;

/**
 * The stages of an application that wrote rows, as Spark's own metrics and plans tell them; spark_writes.py says what
 * becomes of them. SparkWrites.class is this file, compiled (`make listener`): a compiler would cost each job a third of
 * a second. So it names nothing that differs between the Sparks (a Seq of Scala's, say).
 */
public class SparkWrites extends SparkListener {
  /** Beyond, writes are only counted. */
  private static final int KEPT_MAX = 10000;

  private static final int TEXT_MAX = 4000;

  /** Plans that write to what has no output metrics of its own. */
  private static final Set WRITES = new HashSet(Arrays.asList(new String[] {
    "AppendData", "OverwriteByExpression", "OverwritePartitionsDynamic", "ReplaceData", "WriteDelta",
    "WriteToDataSourceV2", "CreateTableAsSelect", "AtomicCreateTableAsSelect", "ReplaceTableAsSelect",
    "AtomicReplaceTableAsSelect"}));

  private final String property;
  private final Map stages = new HashMap();
  private final Map plans = new HashMap();
  private final Set writing = new HashSet();
  private final List kept = new ArrayList();
  private int more = 0;

  /** `property`: of jobs that belong to a recorded action, says to which. */
  public SparkWrites(String property) {
    this.property = property;
  }

  public synchronized void onStageSubmitted(SparkListenerStageSubmitted event) {
    Properties given = event.properties();
    String[] of = new String[3];
    if (given != null) {
      of[0] = given.getProperty(property);
      of[1] = given.getProperty("spark.sql.execution.id");
      of[2] = given.getProperty("spark.sql.execution.root.id");
    }
    stages.put(name(event.stageInfo()), of);
  }

  public synchronized void onStageCompleted(SparkListenerStageCompleted event) {
    StageInfo stage = event.stageInfo();
    String[] of = (String[]) stages.remove(name(stage));
    if (of == null) {
      of = new String[3];
    }
    boolean wrote = writing.contains(of[1]) || writing.contains(of[2]);
    if (stage.taskMetrics() != null) {
      OutputMetrics output = stage.taskMetrics().outputMetrics();
      wrote = wrote || output.recordsWritten() > 0 || output.bytesWritten() > 0;
    }
    if (wrote) {
      keep(stage, of);
    }
  }

  public synchronized void onOtherEvent(SparkListenerEvent event) {
    if (event instanceof SparkListenerSQLExecutionStart) {
      SparkListenerSQLExecutionStart start = (SparkListenerSQLExecutionStart) event;
      String id = String.valueOf(start.executionId());
      String node = start.sparkPlanInfo().nodeName();
      String text = start.sparkPlanInfo().simpleString();
      if (node.startsWith("Execute ") || WRITES.contains(node)) {
        plans.put(id, text);
      }
      if (WRITES.contains(node) && text.indexOf("NoopWrite") < 0) {
        writing.add(id);
      }
    } else if (event instanceof SparkListenerSQLExecutionEnd) {
      String id = String.valueOf(((SparkListenerSQLExecutionEnd) event).executionId());
      plans.remove(id);
      writing.remove(id);
    }
  }

  /** Of each stage that wrote since the last call: action, time, number, execution, plan, name and calls. */
  public synchronized String[] taken() {
    String[] found = (String[]) kept.toArray(new String[kept.size()]);
    kept.clear();
    return found;
  }

  /** How many more there were than were kept. */
  public synchronized int more() {
    return more;
  }

  private void keep(StageInfo stage, String[] of) {
    if (kept.size() >= KEPT_MAX) {
      more++;
      return;
    }
    Object plan = plans.get(of[1]);
    if (plan == null) {
      plan = plans.get(of[2]);
    }
    Object time = stage.submissionTime().isDefined() ? stage.submissionTime().get() : "";
    StringBuilder line = new StringBuilder();
    Object[] parts = {of[0], time, Integer.valueOf(stage.stageId()), of[2] == null ? of[1] : of[2], plan, stage.name(), stage.details()};
    for (int place = 0; place < parts.length; place++) {
      String text = parts[place] == null ? "" : String.valueOf(parts[place]);
      line.append(place == 0 ? "" : "\u0001").append(text.length() > TEXT_MAX ? text.substring(0, TEXT_MAX) : text);
    }
    kept.add(line.toString());
  }

  private static String name(StageInfo stage) {
    return stage.stageId() + "." + stage.attemptNumber();
  }
}
