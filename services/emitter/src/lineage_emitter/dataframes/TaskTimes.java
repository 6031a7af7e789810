package lineage;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkContext;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.rdd.RDD;
import org.apache.spark.rdd.RDDOperationScope;
import org.apache.spark.scheduler.LiveListenerBus;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.scheduler.StageInfo;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning;
import org.apache.spark.sql.execution.CoalescedPartitionSpec;
import org.apache.spark.sql.execution.FileSourceScanExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AQEShuffleReadExec;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.datasources.FilePartition;
import org.apache.spark.sql.execution.datasources.FileScanRDD;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.storage.RDDInfo;
import org.apache.spark.util.AccumulatorV2;
import scala.reflect.ClassTag$;

/** How long the tasks of actions on DataFrames take, by Spark's own metrics, and what they read; compiled as PlanText.java is. */
public class TaskTimes extends SparkListener {
  private static final int KEPT_MAX = 10000;
  private static final int STAGES_MAX = 1000;
  private static final int FILES_MAX = 20;

  /** How long the end of an application waits for Spark's events. */
  private static final long EVENTS_MS = 10000;

  /** Of a stage whose tasks' files are named. */
  static final int TASKS_MAX = 20;

  static final Comparator BY_TIME =
      new Comparator() {
        public int compare(Object one, Object other) {
          return Double.compare(seconds(one), seconds(other));
        }
      };

  private String property;
  private LiveListenerBus bus;

  /** Whether somebody wants to know. */
  private volatile boolean isWanted;

  /** Keys that are hashed as SQL's `hash` hashes their columns. */
  private static final Set HASHED =
      new HashSet(Arrays.asList(new String[] {"boolean", "tinyint", "smallint", "int", "bigint", "string", "date", "timestamp"}));

  private final Map stages = new LinkedHashMap();

  /** By stage, the number of the shuffle that it writes. */
  private final Map shuffles = new LinkedHashMap();
  private final List kept = new ArrayList();
  private int lost = 0;

  /** `property`: of jobs, says of which action they are. */
  public TaskTimes of(String property) {
    TaskTimes other = new TaskTimes();
    other.property = property;
    return other;
  }

  /** Begin to listen, in a queue of Spark's for this listener alone. */
  public void begin(SparkContext sc) {
    bus = sc.listenerBus();
    bus.addToQueue(this, "lineage-times");
  }

  /** Listen no more, once all that happened so far has been heard of where somebody wants to know. */
  public void end() {
    try {
      if (isWanted) {
        bus.waitUntilEmpty(EVENTS_MS);
      }
    } catch (TimeoutException late) {
      lose();
    }
    bus.removeListener(this);
  }

  public void want(boolean isWanted) {
    this.isWanted = isWanted;
  }

  /** A stage that runs, or has run. */
  private static class Stage {
    final String action;
    final String execution;
    final Map facts = new LinkedHashMap();
    final Set rdds = new LinkedHashSet();
    final List parents = new ArrayList();
    /** The slowest of them, the fastest first. */
    final PriorityQueue tasks = new PriorityQueue(TASKS_MAX + 1, BY_TIME);

    /** Whether a task reads the partitions with its own number. */
    boolean isStraight = true;

    int partitions = -1;

    Stage(StageInfo info, String action, String execution) {
      this.action = action;
      this.execution = execution;
      Map scopes = new TreeMap();
      scala.collection.Iterator all = info.rddInfos().iterator();
      while (all.hasNext()) {
        RDDInfo rdd = (RDDInfo) all.next();
        rdds.add(Integer.valueOf(rdd.id()));
        // Where Spark puts partitions together by place, as many as before are in another order.
        isStraight &= (partitions < 0 || rdd.numPartitions() == partitions) && !rdd.name().equals("CoalescedRDD");
        partitions = rdd.numPartitions();
        if (rdd.scope().isDefined()) {
          scopes.put(Integer.valueOf(rdd.id()), ((RDDOperationScope) rdd.scope().get()).name().trim());
        }
      }
      scala.collection.Iterator before = info.parentIds().iterator();
      while (before.hasNext()) {
        parents.add(before.next());
      }
      facts.put("stage", Integer.valueOf(info.stageId()));
      facts.put("action", action);
      // Those that read come first.
      facts.put("does", String.join(", ", new LinkedHashSet(scopes.values())));
    }
  }

  public synchronized void onJobStart(SparkListenerJobStart event) {
    Properties given = event.properties();
    if (given == null || given.getProperty(property) == null) {
      return;
    }
    scala.collection.Iterator all = event.stageInfos().iterator();
    while (all.hasNext()) {
      StageInfo stage = (StageInfo) all.next();
      if (stage.shuffleDepId().isDefined()) {
        shuffles.put(Integer.valueOf(stage.stageId()), stage.shuffleDepId().get());
        if (shuffles.size() > STAGES_MAX) {
          shuffles.remove(shuffles.keySet().iterator().next());
        }
      }
    }
  }

  public synchronized void onStageSubmitted(SparkListenerStageSubmitted event) {
    Properties given = event.properties();
    String action = given == null ? null : given.getProperty(property);
    if (action == null) {
      return;
    }
    StageInfo info = event.stageInfo();
    stages.put(info.stageId() + "." + info.attemptNumber(), new Stage(info, action, given.getProperty("spark.sql.execution.id")));
    if (stages.size() > STAGES_MAX) {
      stages.remove(stages.keySet().iterator().next());
    }
  }

  public synchronized void onTaskEnd(SparkListenerTaskEnd event) {
    Stage stage = (Stage) stages.get(event.stageId() + "." + event.stageAttemptId());
    TaskMetrics metrics = event.taskMetrics();
    if (!isWanted || stage == null || metrics == null || !event.taskInfo().successful()) {
      return;
    }
    Map task = new LinkedHashMap(stage.facts);
    task.put("partition", Integer.valueOf(event.taskInfo().partitionId()));
    task.put("seconds", Double.valueOf(metrics.executorRunTime() / 1000.0));
    task.put("records", Long.valueOf(metrics.inputMetrics().recordsRead() + metrics.shuffleReadMetrics().recordsRead()));
    stage.tasks.add(task);
    if (stage.tasks.size() > TASKS_MAX) {
      stage.tasks.poll();
    }
    keep(task);
  }

  public synchronized void onOtherEvent(SparkListenerEvent event) {
    if (!(event instanceof SparkListenerSQLExecutionEnd)) {
      return;
    }
    SparkListenerSQLExecutionEnd end = (SparkListenerSQLExecutionEnd) event;
    List own = new ArrayList();
    Iterator all = stages.values().iterator();
    while (all.hasNext()) {
      Stage stage = (Stage) all.next();
      if (String.valueOf(end.executionId()).equals(stage.execution)) {
        all.remove();
        if (!stage.tasks.isEmpty()) {
          own.add(stage);
        }
      }
    }
    try {
      if (!own.isEmpty() && end.qe() != null) {
        Map scans = new HashMap();
        Map read = new HashMap();
        addReads(end.qe().executedPlan(), null, scans, read);
        for (int i = 0; i < own.size(); i++) {
          keepReads((Stage) own.get(i), scans, read);
        }
      }
    } catch (Throwable problem) {
      // What the tasks read is not known then.
      return;
    }
  }

  /** Add what reads files, by the number of its RDD, and shuffles that are read, by their numbers. `specs`: which partitions of a shuffle tasks read. */
  private static void addReads(SparkPlan plan, Object[] specs, Map scans, Map read) {
    Object[] below = null;
    if (plan instanceof AdaptiveSparkPlanExec) {
      addReads(((AdaptiveSparkPlanExec) plan).executedPlan(), null, scans, read);
    } else if (plan instanceof QueryStageExec) {
      addReads(((QueryStageExec) plan).plan(), specs, scans, read);
    } else if (plan instanceof ReusedExchangeExec) {
      addReads((SparkPlan) ((ReusedExchangeExec) plan).child(), specs, scans, read);
    } else if (plan instanceof AQEShuffleReadExec) {
      below = (Object[]) ((AQEShuffleReadExec) plan).partitionSpecs().toArray(ClassTag$.MODULE$.Object());
    } else if (plan instanceof ShuffleExchangeExec && hasCounted(plan, "shuffleRecordsWritten")) {
      addShuffle((ShuffleExchangeExec) plan, specs, read);
    } else if (plan instanceof FileSourceScanExec && hasCounted(plan, "numFiles")) {
      RDD rdd = (RDD) ((FileSourceScanExec) plan).inputRDDs().head();
      if (rdd instanceof FileScanRDD) {
        scans.put(Integer.valueOf(rdd.id()), rdd);
      }
    }
    scala.collection.Iterator children = plan.children().iterator();
    while (children.hasNext()) {
      addReads((SparkPlan) children.next(), below, scans, read);
    }
  }

  /** Whether a part of a plan has run, by one of its metrics: it is not made to do so here. */
  private static boolean hasCounted(SparkPlan plan, String metric) {
    scala.Option counted = plan.metrics().get(metric);
    return counted.isDefined() && ((Number) ((AccumulatorV2) counted.get()).value()).longValue() > 0;
  }

  /** A shuffle whose rows go to partitions by a hash of some columns. */
  private static class Shuffle {
    final List names;
    final int partitions;
    final Object[] specs;

    Shuffle(List names, int partitions, Object[] specs) {
      this.names = names;
      this.partitions = partitions;
      this.specs = specs;
    }

    /** The first and the last partition that a task reads, of so many tasks; null: that is not known. */
    int[] range(int task, int tasks) {
      if (specs == null) {
        return tasks == partitions ? new int[] {task, task} : null;
      }
      if (tasks != specs.length || !(specs[task] instanceof CoalescedPartitionSpec)) {
        return null;
      }
      CoalescedPartitionSpec spec = (CoalescedPartitionSpec) specs[task];
      return new int[] {spec.startReducerIndex(), spec.endReducerIndex() - 1};
    }
  }

  private static void addShuffle(ShuffleExchangeExec exchange, Object[] specs, Map read) {
    if (!(exchange.outputPartitioning() instanceof HashPartitioning)) {
      return;
    }
    HashPartitioning hashed = (HashPartitioning) exchange.outputPartitioning();
    List names = new ArrayList();
    scala.collection.Iterator keys = hashed.expressions().iterator();
    while (keys.hasNext()) {
      Object key = keys.next();
      if (!(key instanceof Attribute) || !HASHED.contains(((Attribute) key).dataType().catalogString())) {
        return;
      }
      names.add(((Attribute) key).name());
    }
    Integer number = Integer.valueOf(exchange.shuffleDependency().shuffleId());
    Shuffle other = (Shuffle) read.get(number);
    // Where it is read twice in different parts, it is not known which stage reads which.
    boolean isAlike = other == null || Arrays.equals(other.specs, specs);
    read.put(number, new Shuffle(names, hashed.numPartitions(), isAlike ? specs : new Object[0]));
  }

  /** Say of the slowest tasks of a stage which parts of files and of shuffles they read. */
  private void keepReads(Stage stage, Map scans, Map read) {
    if (!stage.isStraight) {
      return;
    }
    Iterator tasks = stage.tasks.iterator();
    while (tasks.hasNext()) {
      int partition = ((Integer) ((Map) tasks.next()).get("partition")).intValue();
      Map line = new LinkedHashMap(stage.facts);
      line.put("partition", Integer.valueOf(partition));
      List keys = keysOf(stage, partition, read);
      List parts = partsOf(stage, partition, scans, line);
      line.put("keys", keys);
      line.put("parts", parts);
      if (!keys.isEmpty() || !parts.isEmpty()) {
        keep(line);
      }
    }
  }

  /** Of each shuffle that a task read: names of columns, how many partitions they are hashed to, and the first and last of those that were read. */
  private List keysOf(Stage stage, int partition, Map read) {
    List keys = new ArrayList();
    for (int i = 0; i < stage.parents.size(); i++) {
      Shuffle shuffle = (Shuffle) read.get(shuffles.get(stage.parents.get(i)));
      int[] range = shuffle == null ? null : shuffle.range(partition, stage.partitions);
      if (range != null) {
        keys.add(new Object[] {shuffle.names, Integer.valueOf(shuffle.partitions), Integer.valueOf(range[0]), Integer.valueOf(range[1])});
      }
    }
    return keys;
  }

  /** Of each part of a file that a task read: path, first byte and length; `line` gets how many more there are. */
  private static List partsOf(Stage stage, int partition, Map scans, Map line) {
    List parts = new ArrayList();
    int more = 0;
    Iterator rdds = stage.rdds.iterator();
    while (rdds.hasNext()) {
      FileScanRDD scan = (FileScanRDD) scans.get(rdds.next());
      PartitionedFile[] files = scan == null ? new PartitionedFile[0] : ((FilePartition) scan.filePartitions().apply(partition)).files();
      for (int n = 0; n < files.length; n++) {
        if (parts.size() < FILES_MAX) {
          parts.add(new Object[] {files[n].toPath().toString(), Long.valueOf(files[n].start()), Long.valueOf(files[n].length())});
        } else {
          more++;
        }
      }
    }
    line.put("more", Integer.valueOf(more));
    return parts;
  }

  private static double seconds(Object task) {
    return ((Double) ((Map) task).get("seconds")).doubleValue();
  }

  private synchronized void lose() {
    lost++;
  }

  private void keep(Map line) {
    if (kept.size() >= KEPT_MAX) {
      lost++;
      return;
    }
    try {
      kept.add(new ObjectMapper().writeValueAsString(line));
    } catch (Exception problem) {
      lost++;
    }
  }

  /** A line of JSON for each task that has ended since the last call, and for what one read; the last line is how many were not kept. */
  public synchronized String taken() {
    if (kept.isEmpty() && lost == 0) {
      return "";
    }
    String lines = String.join("\n", kept) + "\n" + lost;
    kept.clear();
    lost = 0;
    return lines;
  }
}
