package lineage;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import org.apache.spark.api.python.PythonFunction;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;

/** Code of a Python function that calls one of lineage_emitter.worker, which makes the function; compiled as PlanText.java is. */
public class PickledCall {
  /** How functions get rows, by Spark's numbers: one by one by pickle, and by Arrow; in batches by pandas, and by Arrow; in groups, pairs of groups, and groups for one value by these. */
  public static final int BY_PICKLE = 100;

  public static final int ARROW_ROWS = 101;
  public static final int PANDAS = 200;
  public static final int ARROW = 250;

  public static final int PANDAS_GROUPS = 201;

  public static final int ARROW_GROUPS = 209;

  public static final int PANDAS_PAIRS = 206;

  public static final int ARROW_PAIRS = 210;

  public static final int PANDAS_AGGREGATES = 202;

  public static final int ARROW_AGGREGATES = 252;

  /** What the names of functions begin with that say which rows another one did not fail on (FailingRows). */
  public static final String FLAG = "__lineage_kept:";

  private final ByteArrayOutputStream out = new ByteArrayOutputStream();

  /** For who compiles it. */
  public PickledCall() {}

  /** The beginning of a call of a function of a module. */
  public PickledCall(String module, String name) {
    out.write(0x80);
    out.write(3);
    ascii("clineage_emitter.worker." + module + "\n" + name + "\n(");
  }

  /** Whether a function says of each row whether another one did not fail on it. */
  public static boolean isFlag(PythonUDF udf) {
    return udf.name().startsWith(FLAG);
  }

  /** Add a text to the arguments. */
  public PickledCall text(String text) {
    out.write('X');
    return sized(text.getBytes(StandardCharsets.UTF_8));
  }

  /** Add bytes to the arguments. */
  public PickledCall bytes(byte[] written) {
    out.write('B');
    return sized(written);
  }

  /** Whether the code of a function is a call that begins like this one. */
  public boolean isBeginOf(PythonFunction function) {
    byte[] begin = out.toByteArray();
    scala.collection.Iterator all = function.command().iterator();
    int n = 0;
    while (n < begin.length && all.hasNext() && ((Number) all.next()).byteValue() == begin[n]) {
      n++;
    }
    return n == begin.length;
  }

  /** The call as the code of a function that else is as another one. */
  public SimplePythonFunction in(PythonFunction other) {
    ascii("tR.");
    return withCode(other, out.toByteArray());
  }

  /** A function with other code. */
  public static SimplePythonFunction withCode(PythonFunction of, byte[] code) {
    return new SimplePythonFunction(
        code, of.envVars(), of.pythonIncludes(), of.pythonExec(), of.pythonVer(), of.broadcastVars(), of.accumulator());
  }

  /** The code of a function. */
  public static byte[] codeOf(PythonFunction function) {
    byte[] code = new byte[function.command().length()];
    scala.collection.Iterator all = function.command().iterator();
    for (int n = 0; all.hasNext(); n++) {
      code[n] = ((Number) all.next()).byteValue();
    }
    return code;
  }

  /** The last argument of a call of this function, as which code begins. */
  public byte[] lastArgument(byte[] code) {
    int at = out.size();
    int begin = at;
    int end = at;
    while (code[at] == 'X' || code[at] == 'B') {
      int size = 0;
      for (int n = 3; n >= 0; n--) {
        size = size << 8 | code[at + 1 + n] & 255;
      }
      begin = at + 5;
      end = begin + size;
      at = end;
    }
    byte[] last = new byte[end - begin];
    System.arraycopy(code, begin, last, 0, last.length);
    return last;
  }

  private PickledCall sized(byte[] written) {
    for (int shift = 0; shift < 32; shift += 8) {
      out.write(written.length >>> shift);
    }
    out.write(written, 0, written.length);
    return this;
  }

  private void ascii(String text) {
    byte[] written = text.getBytes(StandardCharsets.US_ASCII);
    out.write(written, 0, written.length);
  }
}
