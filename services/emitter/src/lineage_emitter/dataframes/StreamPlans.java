package lineage;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.net.URI;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.expressions.Add;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.GreaterThan;
import org.apache.spark.sql.catalyst.expressions.KnownNullable;
import org.apache.spark.sql.catalyst.expressions.LessThanOrEqual;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.PreciseTimestampConversion;
import org.apache.spark.sql.catalyst.expressions.UnixMicros;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.streaming.StreamingQueryProgress;
import org.apache.spark.sql.types.StructType;
import scala.collection.mutable.ListBuffer;

/**
 * What recording micro-batches needs of plans and logs of streams; compiled as PlanText.java is. Classes of Spark's streams
 * stand in other packages from version to version: they are told by their names.
 */
public class StreamPlans {
  private static final Set STATELESS =
      new HashSet(
          Arrays.asList(
              new String[] {
                "Project", "Filter", "SubqueryAlias", "View", "EventTimeWatermark", "Union", "Generate", "Expand",
                "Repartition", "RepartitionByExpression", "ResolvedHint", "CollectMetrics", "MapInPandas", "MapInArrow",
                "PythonMapInArrow", "UpdateEventTimeWatermarkColumn"
              }));

  /** Leaves of plans that read no files. */
  private static final Set NO_FILES =
      new HashSet(Arrays.asList(new String[] {"LocalRelation", "OneRowRelation", "Range"}));

  private static final String DELAY = "spark.watermarkDelayMs";
  private static final String SESSION = "spark.sessionWindow";

  /** The plan of the rows that a query gives to its sink. */
  public LogicalPlan rows(LogicalPlan plan) {
    while (name(plan).startsWith("WriteToMicroBatchDataSource")) {
      plan = (LogicalPlan) plan.children().head();
    }
    return plan;
  }

  /** The streams that a plan reads, in order. */
  public List streams(LogicalPlan plan) {
    List found = new ArrayList();
    collect(plan, found);
    return found;
  }

  private static void collect(LogicalPlan plan, List found) {
    if (plan.isStreaming() && plan.children().isEmpty()) {
      found.add(plan);
    }
    scala.collection.Iterator below = plan.children().iterator();
    while (below.hasNext()) {
      collect((LogicalPlan) below.next(), found);
    }
  }

  /** The class of a node that may keep state from batch to batch; empty: there is none. */
  public String stateful(LogicalPlan plan) {
    List found = new ArrayList();
    collectStateful(plan, found);
    return found.isEmpty() ? "" : name((LogicalPlan) found.get(0));
  }

  /** The nodes that may keep state, those before any that reads their rows. */
  public List states(LogicalPlan plan) {
    List found = new ArrayList();
    collectStateful(plan, found);
    return found;
  }

  /** Those of `states` whose rows no other of them reads. */
  public List topStates(LogicalPlan plan) {
    List found = states(plan);
    List top = new ArrayList();
    for (int i = 0; i < found.size(); i++) {
      boolean isRead = false;
      for (int j = i + 1; j < found.size() && !isRead; j++) {
        isRead = holds(states((LogicalPlan) found.get(j)), found.get(i));
      }
      if (!isRead) {
        top.add(found.get(i));
      }
    }
    return top;
  }

  /** Whether a list has this very object; equal nodes of a plan are others. */
  private static boolean holds(List list, Object one) {
    for (int i = 0; i < list.size(); i++) {
      if (list.get(i) == one) {
        return true;
      }
    }
    return false;
  }

  /** Whether a node is an aggregate by event time whose rows have the time by which Spark gives them. */
  public boolean isTimed(LogicalPlan plan) {
    if (!(plan instanceof Aggregate) || eventTime((Aggregate) plan) == null) {
      return false;
    }
    return !isOfSessions(plan) || timeKey((Aggregate) plan).metadata().contains(SESSION);
  }

  /** Whether a node merges rows into sessions when they come. */
  public boolean isOfSessions(LogicalPlan plan) {
    if (!(plan instanceof Aggregate)) {
      return false;
    }
    scala.collection.Iterator keys = ((Aggregate) plan).groupingExpressions().iterator();
    while (keys.hasNext()) {
      Object key = keys.next();
      if (key instanceof Attribute && ((Attribute) key).metadata().contains(SESSION)) {
        return true;
      }
    }
    return false;
  }

  private static void collectStateful(LogicalPlan plan, List found) {
    if (!plan.isStreaming()) {
      return;
    }
    int streams = 0;
    scala.collection.Iterator below = plan.children().iterator();
    while (below.hasNext()) {
      LogicalPlan child = (LogicalPlan) below.next();
      collectStateful(child, found);
      streams += child.isStreaming() ? 1 : 0;
    }
    boolean joinsOne = name(plan).equals("Join") && streams == 1;
    if (streams > 0 && !joinsOne && !STATELESS.contains(name(plan))) {
      found.add(plan);
    }
  }

  /** Whether rows of a node may be left out by a condition above it in a plan. */
  public boolean isFiltered(LogicalPlan plan, LogicalPlan node) {
    return isFiltered(plan, node, false);
  }

  private static boolean isFiltered(LogicalPlan plan, LogicalPlan node, boolean within) {
    if (plan == node) {
      return within;
    }
    scala.collection.Iterator below = plan.children().iterator();
    while (below.hasNext()) {
      if (isFiltered((LogicalPlan) below.next(), node, within || name(plan).equals("Filter"))) {
        return true;
      }
    }
    return false;
  }

  /** The column of an aggregate's rows that is its event time, or a window of it; null: there is none. */
  private static Attribute eventTime(Aggregate plan) {
    Attribute key = timeKey(plan);
    return key == null ? null : given(plan, key);
  }

  /** The key of an aggregate that is its event time, or a window of it; null: there is none. */
  private static Attribute timeKey(Aggregate plan) {
    scala.collection.Iterator keys = plan.groupingExpressions().iterator();
    while (keys.hasNext()) {
      Object key = keys.next();
      if (key instanceof Attribute && ((Attribute) key).metadata().contains(DELAY)) {
        return (Attribute) key;
      }
    }
    return null;
  }

  private static Attribute given(Aggregate plan, Attribute key) {
    scala.collection.Iterator columns = plan.aggregateExpressions().iterator();
    while (columns.hasNext()) {
      NamedExpression column = (NamedExpression) columns.next();
      Object value = column instanceof Alias ? ((Alias) column).child() : column;
      if (value instanceof Attribute && ((Attribute) value).exprId().equals(key.exprId())) {
        return column.toAttribute();
      }
    }
    return null;
  }

  /**
   * The rows of an aggregate (see `isTimed`) that Spark gives in a batch: those whose time is behind one watermark and not behind
   * another, in ms since 1970. `below`: what it groups.
   */
  public LogicalPlan due(LogicalPlan timed, LogicalPlan below, Long before, Long now) {
    Attribute time = eventTime((Aggregate) timed);
    Expression end = time.dataType() instanceof StructType ? new GetStructField(time, 1, scala.Option.apply(null)) : time;
    Expression due = new LessThanOrEqual(end, new Literal(Long.valueOf(now.longValue() * 1000), end.dataType()));
    Expression open = new GreaterThan(end, new Literal(Long.valueOf(before.longValue() * 1000), end.dataType()));
    return new Filter(new And(due, open), with(timed, below));
  }

  /** The key of an aggregate by which rows are late; null: there is none. */
  public Attribute lateBy(LogicalPlan plan) {
    return timeKey((Aggregate) plan);
  }

  /** Whether an aggregate makes one group of all rows. */
  public boolean isOfAll(LogicalPlan plan) {
    return ((Aggregate) plan).groupingExpressions().isEmpty();
  }

  /** Whether rows of an aggregate may be late by a key that is no column. */
  public boolean isLateByOther(LogicalPlan plan) {
    scala.collection.Iterator keys = ((Aggregate) plan).groupingExpressions().iterator();
    while (keys.hasNext()) {
      Object key = keys.next();
      boolean isNamed = key instanceof NamedExpression && !(key instanceof Attribute);
      if (isNamed && ((NamedExpression) key).metadata().contains(DELAY)) {
        return true;
      }
      if (key instanceof GetStructField && ((GetStructField) key).metadata().contains(DELAY)) {
        return true;
      }
    }
    return false;
  }

  /** What the rows of an aggregate (see `isTimed`) are made of, as the ends of their windows alone; null: its time is of another type. */
  public LogicalPlan ends(LogicalPlan timed, LogicalPlan below) {
    Attribute key = timeKey((Aggregate) timed);
    Expression end = key.dataType() instanceof StructType ? new GetStructField(key, 1, scala.Option.apply(null)) : key;
    if (!end.dataType().typeName().equals("timestamp")) {
      return null;
    }
    ListBuffer columns = new ListBuffer();
    columns.$plus$eq(
        new Alias(
            new UnixMicros(end),
            "end",
            NamedExpression$.MODULE$.newExprId(),
            new ListBuffer().toList(),
            scala.Option.apply(null),
            new ListBuffer().toList()));
    return new Project(columns.toList(), below);
  }

  /**
   * By how many microseconds the time of a row may lie before that of a group of an aggregate (see `isTimed`) that it is in, where Spark
   * reports the latest time of each batch's rows: its only stream has passed its only watermark by then. null: that is not known.
   */
  public Long before(LogicalPlan plan, LogicalPlan timed) throws Exception {
    List marks = new ArrayList();
    collectMarks(plan, marks);
    if (marks.size() != 1 || streams(plan).size() != 1) {
      return null;
    }
    LogicalPlan mark = (LogicalPlan) marks.get(0);
    Attribute time = (Attribute) mark.getClass().getMethod("eventTime", new Class[0]).invoke(mark, new Object[0]);
    Attribute key = timeKey((Aggregate) timed);
    if (time.dataType() instanceof StructType) {
      return null;
    }
    if (key.exprId().equals(time.exprId())) {
      return Long.valueOf(0);
    }
    List windows = new ArrayList();
    collectDefined((LogicalPlan) timed.children().head(), key, windows);
    long longest = -1;
    for (int i = 0; i < windows.size(); i++) {
      Long length = lengthOf((Expression) windows.get(i), time);
      if (length == null) {
        return null;
      }
      longest = Math.max(longest, length.longValue());
    }
    return longest < 0 ? null : Long.valueOf(longest);
  }

  private static void collectMarks(LogicalPlan plan, List found) {
    scala.collection.Iterator below = plan.children().iterator();
    while (below.hasNext()) {
      collectMarks((LogicalPlan) below.next(), found);
    }
    if (isMark(plan)) {
      found.add(plan);
    }
  }

  /** What a column is computed as, where a node below computes it: one expression, or several that a row is computed by in turn. */
  private static void collectDefined(LogicalPlan plan, Attribute key, List found) {
    if (plan instanceof Project) {
      scala.collection.Iterator columns = ((Project) plan).projectList().iterator();
      while (columns.hasNext()) {
        Object column = columns.next();
        if (column instanceof Alias && ((Alias) column).exprId().equals(key.exprId())) {
          found.add(((Alias) column).child());
          return;
        }
      }
    }
    if (plan instanceof Expand) {
      int place = -1;
      for (int i = 0; i < plan.output().size(); i++) {
        if (((Attribute) plan.output().apply(i)).exprId().equals(key.exprId())) {
          place = i;
        }
      }
      scala.collection.Iterator rows = ((Expand) plan).projections().iterator();
      while (place >= 0 && rows.hasNext()) {
        found.add(((scala.collection.Seq) rows.next()).apply(place));
      }
      if (!found.isEmpty()) {
        return;
      }
    }
    if (plan.children().size() == 1) {
      collectDefined((LogicalPlan) plan.children().head(), key, found);
    }
  }

  /** The length of a window of time, in microseconds, that Spark computes of a column; null: it is none. */
  private static Long lengthOf(Expression window, Attribute time) {
    if (!(window instanceof CreateNamedStruct) || window.children().size() != 4 || window.references().size() != 1) {
      return null;
    }
    Attribute of = (Attribute) window.references().toSeq().apply(0);
    Object end = window.children().apply(3);
    while (end instanceof KnownNullable || end instanceof PreciseTimestampConversion) {
      end = ((Expression) end).children().head();
    }
    if (!of.exprId().equals(time.exprId()) || !(end instanceof Add)) {
      return null;
    }
    Object length = ((Add) end).right();
    if (!(length instanceof Literal) || !(((Literal) length).value() instanceof Long)) {
      return null;
    }
    return (Long) ((Literal) length).value();
  }

  /** The folders that a plan reads beside its streams, each once; an empty text for what is read otherwise. */
  public String beside(LogicalPlan plan) {
    Set found = new LinkedHashSet();
    collectBeside(plan, found);
    scala.collection.Iterator within = plan.subqueriesAll().iterator();
    while (within.hasNext()) {
      collectBeside((LogicalPlan) within.next(), found);
    }
    StringBuilder out = new StringBuilder();
    Object[] folders = found.toArray();
    for (int i = 0; i < folders.length; i++) {
      out.append(folders[i]).append('\u0001');
    }
    return out.toString();
  }

  private static void collectBeside(LogicalPlan plan, Set found) {
    scala.collection.Iterator below = plan.children().iterator();
    while (below.hasNext()) {
      collectBeside((LogicalPlan) below.next(), found);
    }
    if (!plan.children().isEmpty() || plan.isStreaming() || NO_FILES.contains(name(plan))) {
      return;
    }
    Object relation = plan instanceof LogicalRelation ? ((LogicalRelation) plan).relation() : null;
    if (!(relation instanceof HadoopFsRelation)) {
      found.add("");
      return;
    }
    scala.collection.Iterator roots = ((HadoopFsRelation) relation).location().rootPaths().iterator();
    while (roots.hasNext()) {
      found.add(roots.next().toString());
    }
  }

  /**
   * A plan of a batch: each stream that it reads (as `streams` has them) is one of `rows`, plans with the same columns; null: no
   * rows. `states`: nodes in whose places `given` stand.
   */
  public LogicalPlan batch(LogicalPlan plan, List streams, List rows, List states, List given) {
    if (isMark(plan)) {
      return batch((LogicalPlan) plan.children().head(), streams, rows, states, given);
    }
    for (int i = 0; i < states.size(); i++) {
      if (states.get(i) == plan) {
        return (LogicalPlan) given.get(i);
      }
    }
    for (int i = 0; i < streams.size(); i++) {
      if (streams.get(i) == plan) {
        return renamed(plan, (LogicalPlan) rows.get(i));
      }
    }
    ListBuffer children = new ListBuffer();
    scala.collection.Iterator below = plan.children().iterator();
    while (below.hasNext()) {
      children.$plus$eq(batch((LogicalPlan) below.next(), streams, rows, states, given));
    }
    return children.isEmpty() ? plan : (LogicalPlan) plan.withNewChildren(children.toList());
  }

  /** Whether a node says no more than how late rows may be. */
  private static boolean isMark(LogicalPlan plan) {
    return name(plan).equals("EventTimeWatermark") || name(plan).equals("UpdateEventTimeWatermarkColumn");
  }

  private static LogicalPlan with(LogicalPlan plan, LogicalPlan child) {
    ListBuffer children = new ListBuffer();
    children.$plus$eq(child);
    return (LogicalPlan) plan.withNewChildren(children.toList());
  }

  /** Rows under the names and numbers of a stream's columns. */
  private static LogicalPlan renamed(LogicalPlan stream, LogicalPlan rows) {
    if (rows == null) {
      return LocalRelation$.MODULE$.apply(stream.output());
    }
    if (rows.output().size() != stream.output().size()) {
      throw new IllegalStateException("columns that tell of files");
    }
    ListBuffer columns = new ListBuffer();
    scala.collection.Iterator to = stream.output().iterator();
    scala.collection.Iterator from = rows.output().iterator();
    while (to.hasNext()) {
      Attribute named = (Attribute) to.next();
      Attribute read = (Attribute) from.next();
      columns.$plus$eq(
          new Alias(
              read,
              named.name(),
              named.exprId(),
              named.qualifier(),
              scala.Option.apply(null),
              new ListBuffer().toList()));
    }
    return new Project(columns.toList(), rows);
  }

  /** How many reports Spark keeps of a query, and those of batches behind a number. */
  public String reports(Object execution, long beyond) throws Exception {
    Object[] kept = (Object[]) execution.getClass().getMethod("recentProgress", new Class[0]).invoke(execution, new Object[0]);
    StringBuilder out = new StringBuilder().append(kept.length).append('\u0001');
    for (int i = 0; i < kept.length; i++) {
      StreamingQueryProgress report = (StreamingQueryProgress) kept[i];
      // Triggers that ran no batch are reported, too.
      if (report.batchId() > beyond && report.durationMs().containsKey("addBatch")) {
        out.append(report.json()).append('\u0001');
      }
    }
    return out.toString();
  }

  /** The watermark, in ms since 1970, with which the offsets of a batch were written. */
  public long watermark(Object offsets) throws Exception {
    return numberOf(offsets, "batchWatermarkMs");
  }

  /** When the offsets of a batch were written, in ms since 1970. */
  public long planned(Object offsets) throws Exception {
    return numberOf(offsets, "batchTimestampMs");
  }

  /** A number that was written with offsets; Spark 4.3 gives them by another name. */
  private static long numberOf(Object offsets, String name) throws Exception {
    Method given;
    try {
      given = offsets.getClass().getMethod("metadataOpt", new Class[0]);
    } catch (NoSuchMethodException older) {
      given = offsets.getClass().getMethod("metadata", new Class[0]);
    }
    Object metadata = ((scala.Option) given.invoke(offsets, new Object[0])).get();
    Method number = metadata.getClass().getMethod(name, new Class[0]);
    return ((Long) number.invoke(metadata, new Object[0])).longValue();
  }

  /** Whether two are one object; equal ones are others. */
  public boolean isSame(Object one, Object other) {
    return one == other;
  }

  /** A private field. */
  public Object field(Object of, String name) throws Exception {
    Field field = of.getClass().getDeclaredField(name);
    field.setAccessible(true);
    return field.get(of);
  }

  /** The files that the log of a source of files names from one of its batches to another: time and path, by turns. */
  public String read(Object source, long from, long to) throws Exception {
    Object log = field(source, "metadataLog");
    Object[] range = new Object[] {scala.Option.apply(Long.valueOf(from)), scala.Option.apply(Long.valueOf(to))};
    Object[] batches = (Object[]) method(log, "get", scala.Option.class, 2).invoke(log, range);
    StringBuilder out = new StringBuilder();
    for (int i = 0; i < batches.length; i++) {
      Object[] files = (Object[]) ((scala.Tuple2) batches[i])._2();
      for (int j = 0; j < files.length; j++) {
        scala.Product file = (scala.Product) files[j];
        String path = new Path(new URI((String) file.productElement(0))).toString();
        out.append(file.productElement(1)).append('\u0001').append(path).append('\u0001');
      }
    }
    return out.toString();
  }

  /** The files of `read` as they are now: size, time, time in the log, and path, by turns. */
  public String found(Object source, long from, long to) throws Exception {
    String[] logged = read(source, from, to).split("\u0001");
    FileSystem system = (FileSystem) field(source, "fs");
    StringBuilder out = new StringBuilder();
    for (int i = 1; i < logged.length; i += 2) {
      FileStatus file = system.getFileStatus(new Path(logged[i]));
      out.append(file.getLen()).append('\u0001').append(file.getModificationTime()).append('\u0001');
      out.append(logged[i - 1]).append('\u0001').append(logged[i]).append('\u0001');
    }
    return out.toString();
  }

  /** Where a batch ends in each stream, as JSON, empty where it gave nothing; null: the log does not have the batch. */
  public String ends(Object log, long batch) throws Exception {
    scala.Option held = (scala.Option) method(log, "get", Long.TYPE, 1).invoke(log, new Object[] {Long.valueOf(batch)});
    if (held.isEmpty()) {
      return null;
    }
    Object offsets = held.get().getClass().getMethod("offsets", new Class[0]).invoke(held.get(), new Object[0]);
    scala.collection.Iterator each = ((scala.collection.Iterable) offsets).iterator();
    StringBuilder out = new StringBuilder();
    while (each.hasNext()) {
      scala.Option end = (scala.Option) each.next();
      if (end.isDefined()) {
        out.append(end.get().getClass().getMethod("json", new Class[0]).invoke(end.get(), new Object[0]));
      }
      out.append('\u0001');
    }
    return out.toString();
  }

  /** The files that the log of a sink of files has of a batch: size, time and path, by turns; null: it was not committed. */
  public String written(Object sink, long batch) throws Exception {
    Object log = field(sink, "fileLog");
    Object[] files = logged(log, batch);
    if (files == null) {
      return null;
    }
    int interval = ((Integer) log.getClass().getMethod("compactInterval", new Class[0]).invoke(log, new Object[0])).intValue();
    StringBuilder out = new StringBuilder();
    // Every so often a log holds all files of the batches before, too.
    int first = (batch + 1) % interval == 0 ? firstOfItsOwn(log, batch, files, interval) : 0;
    for (int i = first; i < files.length; i++) {
      FileStatus file = (FileStatus) files[i].getClass().getMethod("toFileStatus", new Class[0]).invoke(files[i], new Object[0]);
      out.append(file.getLen()).append('\u0001').append(file.getModificationTime()).append('\u0001');
      out.append(file.getPath().toString()).append('\u0001');
    }
    return out.toString();
  }

  /**
   * Where the files of a batch begin in a log that holds those of the batches before, too: these go first, in the order of their
   * batches. A log of months has millions of files, so they are looked at from the end.
   */
  private static int firstOfItsOwn(Object log, long batch, Object[] files, int interval) throws Exception {
    int first = 0;
    boolean holdsAll = false;
    // Of batches without files, and of those that a log has forgotten after some time, nothing is in it.
    for (long before = batch - 1; first == 0 && before >= 0 && !holdsAll; before--) {
      Object[] older = logged(log, before);
      if (older == null) {
        throw new IllegalStateException("the sink's log of batch " + before + " is gone");
      }
      Set paths = new HashSet();
      for (int i = 0; i < older.length; i++) {
        paths.add(path(older[i]));
      }
      first = files.length;
      while (first > 0 && !paths.contains(path(files[first - 1]))) {
        first--;
      }
      holdsAll = (before + 1) % interval == 0;
    }
    return first;
  }

  private static Object path(Object logged) throws Exception {
    return logged.getClass().getMethod("path", new Class[0]).invoke(logged, new Object[0]);
  }

  private static Object[] logged(Object log, long batch) throws Exception {
    scala.Option held = (scala.Option) method(log, "get", Long.TYPE, 1).invoke(log, new Object[] {Long.valueOf(batch)});
    return held.isEmpty() ? null : (Object[]) held.get();
  }

  private static Method method(Object of, String name, Class first, int count) throws Exception {
    Method[] methods = of.getClass().getMethods();
    for (int i = 0; i < methods.length; i++) {
      Class[] types = methods[i].getParameterTypes();
      if (methods[i].getName().equals(name) && types.length == count && types[0].equals(first)) {
        return methods[i];
      }
    }
    throw new NoSuchMethodException(name);
  }

  private static String name(LogicalPlan plan) {
    String whole = plan.getClass().getName();
    return whole.substring(whole.lastIndexOf('.') + 1);
  }
}
