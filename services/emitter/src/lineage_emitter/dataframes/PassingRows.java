package lineage;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.util.RawValue;
import java.io.File;
import java.io.IOException;
import java.io.Serializable;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.DirectoryStream;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import org.apache.spark.TaskContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.SimpleAnalyzer$;
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable;
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser$;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.types.AtomicType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.NumericType;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.JavaConverters;

/**
 * The rows of one operator of a watched plan (WatchedRows), in one run of a task, which has an object of its own. Executors load it from a jar;
 * compiled as PlanText.java is.
 */
public class PassingRows implements Predicate, BooleanSupplier, Serializable {
  private static final long serialVersionUID = 1L;
  private static final long POLL_NS = 200000000L;
  private static final int PLACE_MAX = 2000;

  private final String folder;
  private final String[] facts;
  private final String[] names;
  private final DataType[] types;
  private final boolean[] padded;
  private final String zone;
  private final boolean texts;
  private final int charactersMax;

  private transient int seen;
  private transient long polledAt;
  private transient List entries;
  private transient Map runs;
  private transient Run[] active;
  private transient String run;

  /** What is watched for could not be read, and who watches has not been told so. */
  private transient boolean isBlind;

  private transient Expression[] values;

  /** For who compiles it. */
  public PassingRows() {
    this("", new String[0], new String[0], new DataType[0], new boolean[0], "", false, 0);
  }

  /** `padded`: by column whether constants are padded for it. `zone`: the time zone of the driver's session. */
  public PassingRows(String folder, String[] facts, String[] names, DataType[] types, boolean[] padded, String zone, boolean texts, int charactersMax) {
    this.folder = folder;
    this.facts = facts;
    this.names = names;
    this.types = types;
    this.padded = padded;
    this.zone = zone;
    this.texts = texts;
    this.charactersMax = charactersMax;
  }

  public String toString() {
    return facts[0];
  }

  /** A row passes: whether somebody watches. */
  public boolean getAsBoolean() {
    if ((seen++ & 255) == 0) {
      try {
        poll();
      } catch (Throwable problem) {
        isBlind = true;
      }
      if (isBlind) {
        isBlind = !toldLost();
      }
    }
    return active != null;
  }

  /** Tell all who watch that rows may be missing; false: that could not be written. */
  private boolean toldLost() {
    try {
      DirectoryStream all = Files.newDirectoryStream(Paths.get(folder, new String[] {"hits"}));
      try {
        Iterator each = all.iterator();
        while (each.hasNext()) {
          new File(((Path) each.next()).toFile(), run + ".lost").createNewFile();
        }
      } finally {
        all.close();
      }
      return true;
    } catch (NoSuchFileException end) {
      return true;
    } catch (IOException problem) {
      return false;
    }
  }

  private void poll() throws IOException {
    long now = System.nanoTime();
    boolean isFirst = runs == null;
    if (!isFirst && now - polledAt < POLL_NS) {
      return;
    }
    polledAt = now;
    if (isFirst) {
      runs = new HashMap();
      run = UUID.randomUUID().toString().replace("-", "");
      final PassingRows rows = this;
      TaskContext.get()
          .addTaskCompletionListener(
              new TaskCompletionListener() {
                public void onTaskCompletion(TaskContext context) {
                  rows.close();
                }
              });
    }
    List current = Board.entries(folder, isFirst ? 0 : POLL_NS);
    if (current == entries) {
      return;
    }
    entries = current;
    List fitting = new ArrayList();
    for (int i = 0; i < current.size(); i++) {
      Map entry = (Map) current.get(i);
      String node = (String) entry.get("node");
      // Of a line of the program, what takes time is the tasks and the Python functions of its action.
      boolean isOfLine = node.equals(facts[3]) && !Boolean.TRUE.equals(entry.get("timed"));
      if (node.equals(facts[0]) || node.equals(facts[1]) || node.equals(facts[2]) || isOfLine) {
        Run run = runOf(entry);
        if (run.predicate != null) {
          fitting.add(run);
        }
      }
    }
    active = fitting.isEmpty() ? null : (Run[]) fitting.toArray(new Run[fitting.size()]);
  }

  private Run runOf(Map entry) {
    String id = (String) entry.get("id");
    Run found = (Run) runs.get(id);
    if (found == null) {
      found = new Run(Paths.get(folder, new String[] {"hits", id, run + ".jsonl"}), entry);
      runs.put(id, found);
      String problem = (String) entry.get("problem");
      if (problem == null) {
        try {
          found.predicate = predicate((String) entry.get("sql"));
        } catch (Throwable failure) {
          problem = "the condition can't be tested on [" + String.join(", ", names) + "]";
          String why = failure.getMessage();
          problem += why == null ? "" : ": " + why.split("\n")[0];
        }
      }
      if (problem != null) {
        Map line = line();
        line.put("problem", problem.length() > 500 ? problem.substring(0, 500) : problem);
        found.write(line);
      }
    }
    return found;
  }

  private BasePredicate predicate(String sql) {
    String ownZone = SQLConf$.MODULE$.get().sessionLocalTimeZone();
    if (!ownZone.equals(zone)) {
      throw new IllegalArgumentException("the driver has the time zone " + zone + ", and its executor " + ownZone + ": set spark.sql.session.timeZone");
    }
    return Predicate$.MODULE$.create(evaluable(analysed(sql, names, types, padded, 0)));
  }

  /** A condition on rows, whose columns are those from `first` on. */
  private static Expression analysed(String sql, String[] names, DataType[] types, boolean[] padded, int first) {
    BoundReference[] columns = new BoundReference[names.length];
    for (int i = 0; i < names.length; i++) {
      columns[i] = new BoundReference(first + i, types[i], true);
    }
    Expression named = named(CatalystSqlParser$.MODULE$.parseExpression(sql), names, columns, padded);
    LogicalPlan none = LocalRelation$.MODULE$.apply((scala.collection.immutable.Seq) listed(new ArrayList()));
    LogicalPlan analysed = (LogicalPlan) SimpleAnalyzer$.MODULE$.execute(new Filter(named, none));
    SimpleAnalyzer$.MODULE$.checkAnalysis(analysed);
    return ((Filter) analysed).condition();
  }

  /** An expression with columns in the place of their names, which each are those of just one. */
  private static Expression named(Expression expression, String[] names, BoundReference[] columns, boolean[] padded) {
    if (expression instanceof UnresolvedAttribute) {
      String name = ((UnresolvedAttribute) expression).nameParts().mkString(".");
      Expression found = null;
      for (int i = 0; i < columns.length; i++) {
        if (names[i].equalsIgnoreCase(name)) {
          if (found != null) {
            throw new IllegalArgumentException("several columns are called " + name);
          }
          if (padded[i]) {
            throw new IllegalArgumentException("its column " + name + " is of CHAR(n), with which constants are not compared here");
          }
          found = columns[i];
        }
      }
      if (found == null) {
        throw new IllegalArgumentException("it has no column " + name);
      }
      return found;
    }
    List below = new ArrayList();
    scala.collection.Iterator children = expression.children().iterator();
    if (!children.hasNext()) {
      return expression;
    }
    while (children.hasNext()) {
      below.add(named((Expression) children.next(), names, columns, padded));
    }
    return (Expression) expression.withNewChildren(listed(below));
  }

  /** A list of Scala's. Not by a ListBuffer: of Scala 2.12 the compiler may take one of its methods for several. */
  public static scala.collection.immutable.List listed(List elements) {
    return JavaConverters.asScalaBuffer(elements).toList();
  }

  private static Expression evaluable(Expression expression) {
    Expression stated = expression;
    while (stated instanceof RuntimeReplaceable) {
      stated = ((RuntimeReplaceable) stated).replacement();
    }
    List below = new ArrayList();
    scala.collection.Iterator children = stated.children().iterator();
    if (!children.hasNext()) {
      return stated;
    }
    while (children.hasNext()) {
      below.add(evaluable((Expression) children.next()));
    }
    return (Expression) stated.withNewChildren(listed(below));
  }

  /** A row passes that somebody watches for. True: no row is left out. */
  public boolean test(Object row) {
    try {
      Run[] all = active;
      for (int i = 0; all != null && i < all.length; i++) {
        tested(all[i], (InternalRow) row);
      }
    } catch (Throwable problem) {
      // The job goes on.
      isBlind = true;
    }
    return true;
  }

  private void tested(Run run, InternalRow row) {
    run.tested++;
    boolean fulfils = false;
    try {
      fulfils = run.predicate.eval(row);
    } catch (Throwable problem) {
      run.failed++;
      if (run.failed == 1) {
        // Its type alone: what it says may hold the row.
        Map line = line();
        line.put("error", problem.getClass().getSimpleName());
        run.write(line);
      }
    }
    if (fulfils == run.must) {
      return;
    }
    if (run.count >= run.limit || run.bytes >= Run.BYTES_MAX) {
      run.beyond++;
      return;
    }
    run.count++;
    Map line = line();
    line.put("text", null);
    line.put("made_from", new Object[0]);
    line.put("superset", Boolean.FALSE);
    line.put("row", "");
    if (texts) {
      try {
        show(row, line);
      } catch (Throwable problem) {
        line.put("row", "");
      }
    }
    run.write(line);
  }

  private Map line() {
    Map line = new LinkedHashMap();
    line.put("node", facts[0]);
    line.put("label", facts[1] + " (" + facts[0] + ")" + (facts[3].isEmpty() ? "" : " at " + facts[3]));
    line.put("partition", Integer.valueOf(TaskContext.getPartitionId()));
    return line;
  }

  /** What a row looks like, and how a trace names it by its values. */
  private void show(InternalRow row, Map line) throws IOException {
    if (values == null) {
      values = asTexts();
    }
    Map shown = new LinkedHashMap();
    StringBuilder place = new StringBuilder();
    Set lowered = new HashSet();
    String unnamed = "";
    for (int i = 0; i < names.length; i++) {
      Object value = values[i] == null ? null : values[i].eval(row);
      String text = value == null ? null : value.toString();
      String type = types[i].catalogString();
      boolean isPlain = types[i] instanceof NumericType && !"NaN".equals(text) && text != null && !text.endsWith("Infinity");
      String name = shown.containsKey(names[i]) ? names[i] + " (" + (i + 1) + ")" : names[i];
      shown.put(name, text != null && (isPlain || type.equals("boolean")) ? (Object) new RawValue(text) : text);
      if (!lowered.add(names[i].toLowerCase())) {
        unnamed = "several columns are called " + names[i] + ": its values name no row of a trace";
      } else if (values[i] == null || !(types[i] instanceof AtomicType) || type.equals("binary") || type.equals("variant")) {
        unnamed = "a trace compares no column of " + (type.length() > 80 ? type.substring(0, 80) : type) + ": its other values may name more rows";
      } else {
        place.append(place.length() == 0 ? "" : ",").append(quoted(names[i])).append('=');
        place.append(text == null ? "" : quoted(text));
      }
    }
    String text = new ObjectMapper().writeValueAsString(shown);
    line.put("text", text.length() > charactersMax ? text.substring(0, charactersMax) + "… (cut)" : text);
    line.put("row", place.length() > PLACE_MAX || !unnamed.isEmpty() ? "" : place.toString());
    line.put("unnamed", unnamed);
  }

  private static String quoted(String text) {
    boolean isPlain = !text.isEmpty() && text.indexOf(',') < 0 && text.indexOf('"') < 0 && text.indexOf('=') < 0 && text.indexOf('#') < 0 && text.trim().equals(text);
    return isPlain ? text : "\"" + text.replace("\"", "\"\"") + "\"";
  }

  /** By column its value as a text; null where it has none. */
  private Expression[] asTexts() {
    Expression[] found = new Expression[names.length];
    // What is longer is cut, and names no row.
    int most = Math.max(charactersMax, PLACE_MAX) + 1;
    for (int i = 0; i < names.length; i++) {
      try {
        Expression isNull = analysed("substring(cast(c as string), 1, " + most + ") is null", new String[] {"c"}, new DataType[] {types[i]}, new boolean[1], i);
        found[i] = evaluable(((IsNull) isNull).child());
      } catch (Throwable problem) {
        found[i] = null;
      }
    }
    return found;
  }

  void close() {
    if (isBlind) {
      toldLost();
    }
    Iterator all = runs.values().iterator();
    while (all.hasNext()) {
      Run run = (Run) all.next();
      if (run.beyond > 0 || run.failed > 0 || run.must && run.predicate != null) {
        Map line = line();
        line.put("beyond", Integer.valueOf(run.beyond));
        line.put("failed", Integer.valueOf(run.failed));
        line.put("tested", Long.valueOf(run.tested));
        run.write(line);
      }
      run.close();
    }
  }

  /** What is watched for, as the driver wrote it last: one a process of executors. */
  private static class Board {
    private static final Map boards = new HashMap();

    private final Path path;
    private byte[] written = new byte[0];
    private List entries = new ArrayList();
    private long readAt;

    private Board(Path path) {
      this.path = path;
    }

    /** The entries now, or those of at most so long ago. The same list as before where nothing has changed. */
    static List entries(String folder, long agoNs) throws IOException {
      Board board;
      synchronized (boards) {
        board = (Board) boards.get(folder);
        if (board == null) {
          board = new Board(Paths.get(folder, new String[] {"rows.json"}));
          boards.put(folder, board);
        }
      }
      return board.read(agoNs);
    }

    private synchronized List read(long agoNs) throws IOException {
      long now = System.nanoTime();
      if (written.length > 0 && now - readAt < agoNs) {
        return entries;
      }
      byte[] text;
      try {
        text = Files.readAllBytes(path);
      } catch (NoSuchFileException end) {
        // The folder goes with the job.
        text = new byte[] {'[', ']'};
      }
      if (!Arrays.equals(text, written)) {
        entries = (List) new ObjectMapper().readValue(text, List.class);
        written = text;
      }
      readAt = now;
      return entries;
    }
  }

  /** What one run of a task reports of one watch: written at once, as worker/watch_hits.py does. */
  private static class Run {
    static final int BYTES_MAX = 4 << 20;

    final boolean must;
    final int limit;
    BasePredicate predicate;
    int count = 0;
    int bytes = 0;
    int beyond = 0;
    int failed = 0;
    long tested = 0;

    private final Path path;
    private FileChannel channel;
    private boolean isLost;

    Run(Path path, Map entry) {
      this.path = path;
      must = ((Boolean) entry.get("must")).booleanValue();
      limit = ((Number) entry.get("limit")).intValue();
    }

    void write(Map document) {
      if (isLost) {
        return;
      }
      try {
        byte[] line = (new ObjectMapper().writeValueAsString(document) + "\n").getBytes(StandardCharsets.UTF_8);
        if (channel == null) {
          FileAttribute[] own = {PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"))};
          Set options = new HashSet(Arrays.asList(new StandardOpenOption[] {StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE}));
          channel = FileChannel.open(path, options, own);
        }
        ByteBuffer left = ByteBuffer.wrap(line);
        while (left.hasRemaining()) {
          channel.write(left);
        }
        bytes += line.length;
      } catch (IOException problem) {
        isLost = true;
        File lost = new File(path.toString().replace(".jsonl", ".lost"));
        try {
          // Without the folder nobody watches any more.
          lost.createNewFile();
        } catch (IOException gone) {
          isLost = true;
        }
      }
    }

    void close() {
      try {
        if (channel != null) {
          channel.close();
        }
      } catch (IOException problem) {
        isLost = true;
      }
    }
  }
}
