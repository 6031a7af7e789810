package lineage;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.zip.DeflaterOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.spark.sql.catalyst.ScalaReflection$;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.AtLeastNNonNulls;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.JsonToStructs;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PythonFuncExpression;
import org.apache.spark.sql.catalyst.plans.JoinType;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A plan of Catalyst as JSON; plan_text.py says what stands in it. Spark compiles this as it does the code of queries
 * (Janino: no lambdas, no type inference).
 */
public class PlanText {
  private static final Map NAMES = new ConcurrentHashMap();
  private static final Map FIELDS = new ConcurrentHashMap();

  private final StringBuilder out = new StringBuilder();
  private final Map types = new TreeMap();
  private final Map texts = new HashMap();
  private final List kept = new ArrayList();
  private final Map relations = new IdentityHashMap();
  private final List related = new ArrayList();
  private byte[] packed;

  /** What the text of `plan` needs; `packed` and `kept` of the result give it. */
  public PlanText of(Object plan) {
    PlanText made = new PlanText();
    made.write(plan);
    return made;
  }

  /** A part of the text, compressed, from a byte on: of `most` bytes, or less at its end. */
  public byte[] packed(int from, int most) {
    if (packed == null) {
      packed = compressed(text());
    }
    byte[] part = new byte[Math.min(most, packed.length - from)];
    System.arraycopy(packed, from, part, 0, part.length);
    return part;
  }

  private String text() {
    StringBuilder all = new StringBuilder("{\"plan\":").append(out).append(",\"types\":").append(types(types));
    all.append(",\"relations\":[");
    for (int i = 0; i < related.size(); i++) {
      all.append(i == 0 ? "" : ",").append(related.get(i));
    }
    return all.append("]}").toString();
  }

  /** An object that the text names by its place. */
  public Object kept(int place) {
    return kept.get(place);
  }

  /** The text that a method without side effects gives: `packed` of the result gives it. */
  public PlanText said(Object by, String method, Object[] given) throws Exception {
    Method[] methods = by.getClass().getMethods();
    for (int i = 0; i < methods.length; i++) {
      if (methods[i].getName().equals(method) && methods[i].getParameterCount() == given.length) {
        try {
          PlanText made = new PlanText();
          made.packed = compressed((String) methods[i].invoke(by, given));
          return made;
        } catch (InvocationTargetException problem) {
          throw (Exception) problem.getCause();
        }
      }
    }
    throw new NoSuchMethodException(method);
  }

  private static byte[] compressed(String text) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try {
      DeflaterOutputStream stream = new DeflaterOutputStream(bytes);
      stream.write(text.getBytes("UTF-8"));
      stream.close();
    } catch (IOException problem) {
      throw new RuntimeException(problem);
    }
    return bytes.toByteArray();
  }

  private static String types(Map types) {
    StringBuilder out = new StringBuilder("{");
    Object[] ids = types.keySet().toArray();
    for (int i = 0; i < ids.length; i++) {
      out.append(i == 0 ? "\"" : ",\"").append(ids[i]).append("\":").append(types.get(ids[i]));
    }
    return out.append('}').toString();
  }

  private void write(Object value) {
    if (value instanceof TreeNode) {
      node((TreeNode) value);
    } else if (value instanceof String || value instanceof Character || value instanceof UTF8String) {
      quote(value.toString(), out);
    } else if (value instanceof Boolean || value instanceof Integer || value instanceof Long) {
      out.append(value);
    } else if (value instanceof ExprId) {
      out.append(((ExprId) value).id());
    } else if (value instanceof DataType) {
      out.append(type((DataType) value));
    } else if (value instanceof scala.Option) {
      write(((scala.Option) value).isEmpty() ? null : ((scala.Option) value).get());
    } else if (value instanceof scala.collection.Seq) {
      list(((scala.collection.Seq) value).iterator(), null);
    } else if (value instanceof scala.collection.Set) {
      texts(((scala.collection.Set) value).iterator());
    } else if (value instanceof CatalogTable) {
      quote(((CatalogTable) value).identifier().unquotedString(), out);
    } else if (value instanceof scala.Enumeration.Value) {
      quote(value.toString(), out);
    } else if (value instanceof scala.Product && (value instanceof JoinType || isContext(value))) {
      product((scala.Product) value);
    } else if (value != null && value.getClass().getName().endsWith("$")) {
      quote(name(value.getClass()), out);
    } else {
      out.append("null");
    }
  }

  private void node(TreeNode node) {
    if (node instanceof AttributeReference) {
      AttributeReference column = (AttributeReference) node;
      types.put(Long.valueOf(column.exprId().id()), type(column.dataType()));
      out.append("{\"class\":\"AttributeReference\",\"exprId\":").append(column.exprId().id()).append(",\"name\":");
      quote(column.name(), out);
      out.append(",\"children\":[]}");
      return;
    }
    out.append("{\"class\":");
    quote(name(node.getClass()), out);
    Map children = new IdentityHashMap();
    scala.collection.Iterator below = node.children().iterator();
    for (int i = 0; below.hasNext(); i++) {
      children.put(below.next(), Integer.valueOf(i));
    }
    scala.Product fields = (scala.Product) node;
    String[] names = fields(fields);
    for (int i = 0; i < fields.productArity(); i++) {
      field(names[i]);
      held(fields.productElement(i), children);
    }
    more(node);
    field("children");
    list(node.children().iterator(), null);
    out.append('}');
  }

  /** A field's value; what stands among the node's children, too, is given by its place there. */
  private void held(Object value, Map children) {
    Object place = children.get(value);
    if (place != null) {
      out.append(place);
    } else if (value instanceof scala.collection.Seq && !(value instanceof DataType) && !children.isEmpty()) {
      // A struct's type is a list of its fields, too.
      list(((scala.collection.Seq) value).iterator(), children);
    } else {
      write(value);
    }
  }

  /** What is no argument of a node's class, and what has another form there. */
  private void more(TreeNode node) {
    if (node instanceof NamedExpression) {
      field("exprId");
      out.append(((NamedExpression) node).exprId().id());
    }
    if (node instanceof Literal) {
      field("value");
      write(value((Literal) node));
      if (((Literal) node).value() instanceof ArrayData) {
        field("elements");
        elements((ArrayData) ((Literal) node).value(), ((ArrayType) ((Literal) node).dataType()).elementType());
      }
    } else if (node instanceof AtLeastNNonNulls) {
      field("types");
      out.append('[');
      scala.collection.Iterator of = node.children().iterator();
      for (int i = 0; of.hasNext(); i++) {
        out.append(i == 0 ? "" : ",");
        write(((Expression) of.next()).dataType());
      }
      out.append(']');
    } else if (node instanceof JsonToStructs) {
      // A struct is a list of its fields, too, and was written as such.
      field("schema");
      write(((JsonToStructs) node).schema());
      options(((JsonToStructs) node).options(), out);
    } else if (node instanceof InSet) {
      field("dataType");
      write(((InSet) node).child().dataType());
    } else if (node instanceof GetStructField) {
      field("name");
      write(((GetStructField) node).extractFieldName());
    } else if (node instanceof LogicalRelation) {
      field("relation");
      relation(((LogicalRelation) node).relation());
    } else if (node instanceof Aggregate) {
      field("session");
      write(session((Aggregate) node));
    } else if (node.getClass().getSimpleName().startsWith("FlatMapCoGroupsIn")) {
      field("leftKeys");
      keys(node, 0);
      field("rightKeys");
      keys(node, 1);
    }
    if (node instanceof PythonFuncExpression || node instanceof LogicalPlan && node.children().isEmpty()) {
      field("kept");
      out.append(kept.size());
      kept.add(node);
    }
  }

  /** The columns that name the groups of one side of a pair: the first ones. */
  private void keys(TreeNode node, int side) {
    int count = ((Integer) ((scala.Product) node).productElement(side)).intValue();
    scala.collection.Iterator below = node.children().iterator();
    for (int n = 0; n < side; n++) {
      below.next();
    }
    list(((scala.collection.Seq) ((LogicalPlan) below.next()).output().take(count)).iterator(), null);
  }

  /** The number of a key by which Spark merges rows into sessions as it groups them; null: it groups by no session. */
  private static Object session(Aggregate node) {
    scala.collection.Iterator keys = node.groupingExpressions().iterator();
    while (keys.hasNext()) {
      Object key = keys.next();
      if (key instanceof AttributeReference && ((AttributeReference) key).metadata().contains("spark.sessionWindow")) {
        return ((AttributeReference) key).exprId();
      }
    }
    return null;
  }

  /** The text of a constant. Dates and times are numbers; Spark's own JSON has a text for each value. */
  private static Object value(Literal literal) {
    Object text = ((scala.Tuple2) literal.jsonFields().head())._2();
    // The class stands elsewhere in Spark 3.5.
    return text.getClass().getName().endsWith("JString") ? ((scala.Product) text).productElement(0) : null;
  }

  private void elements(ArrayData array, DataType type) {
    out.append('[');
    for (int i = 0; i < array.numElements(); i++) {
      out.append(i == 0 ? "" : ",");
      write(array.isNullAt(i) ? null : value(new Literal(array.get(i, type), type)));
    }
    out.append(']');
  }

  /** A relation stands in the text once, however often a plan reads it. */
  private void relation(Object relation) {
    Object place = relations.get(relation);
    if (place == null) {
      place = Integer.valueOf(related.size());
      relations.put(relation, place);
      related.add(described(relation));
    }
    out.append(place);
  }

  private String described(Object relation) {
    StringBuilder text = new StringBuilder("{\"kept\":").append(kept.size());
    kept.add(relation);
    text.append(",\"class\":");
    quote(relation.getClass().getName(), text);
    if (relation instanceof HadoopFsRelation) {
      HadoopFsRelation files = (HadoopFsRelation) relation;
      text.append(",\"location\":");
      quote(files.location().getClass().getName(), text);
      text.append(",\"format\":");
      quote(files.fileFormat().toString(), text);
      text.append(",\"schema\":");
      quote(files.dataSchema().json(), text);
      text.append(",\"partitions\":");
      quote(files.partitionSchema().isEmpty() ? "" : files.partitionSchema().json(), text);
      options(files.options(), text);
      files(files, text);
    }
    return text.append('}').toString();
  }

  private static void options(scala.collection.Map options, StringBuilder text) {
    text.append(",\"options\":{");
    scala.collection.Iterator all = options.iterator();
    for (int i = 0; all.hasNext(); i++) {
      scala.Tuple2 option = (scala.Tuple2) all.next();
      text.append(i == 0 ? "" : ",");
      quote((String) option._1(), text);
      text.append(':');
      quote(String.valueOf(option._2()), text);
    }
    text.append('}');
  }

  private static void files(HadoopFsRelation relation, StringBuilder text) {
    text.append(",\"paths\":[");
    scala.collection.Iterator paths = relation.location().rootPaths().iterator();
    for (int i = 0; paths.hasNext(); i++) {
      text.append(i == 0 ? "" : ",");
      quote(paths.next().toString(), text);
    }
    text.append("],\"files\":[");
    if (relation.location() instanceof PartitioningAwareFileIndex) {
      scala.collection.Iterator all = ((PartitioningAwareFileIndex) relation.location()).allFiles().iterator();
      for (int i = 0; all.hasNext(); i++) {
        FileStatus file = (FileStatus) all.next();
        text.append(i == 0 ? "[" : ",[");
        quote(file.getPath().toString(), text);
        text.append(',').append(file.getLen()).append(',').append(file.getModificationTime()).append(']');
      }
    }
    text.append(']');
  }

  private void product(scala.Product product) {
    out.append("{\"class\":");
    quote(name(product.getClass()), out);
    String[] names = fields(product);
    for (int i = 0; i < product.productArity(); i++) {
      field(names[i]);
      write(product.productElement(i));
    }
    out.append('}');
  }

  private void list(scala.collection.Iterator items, Map children) {
    out.append('[');
    for (int i = 0; items.hasNext(); i++) {
      out.append(i == 0 ? "" : ",");
      Object item = items.next();
      if (children == null) {
        write(item);
      } else {
        held(item, children);
      }
    }
    out.append(']');
  }

  private void texts(scala.collection.Iterator items) {
    out.append('[');
    for (int i = 0; items.hasNext(); i++) {
      Object item = items.next();
      out.append(i == 0 ? "" : ",");
      write(item == null ? null : item.toString());
    }
    out.append(']');
  }

  private void field(String name) {
    out.append(",\"").append(name).append("\":");
  }

  private String type(DataType type) {
    Object text = texts.get(type);
    if (text == null) {
      text = type.json();
      texts.put(type, text);
    }
    return (String) text;
  }

  /** How an expression is evaluated, of which Spark 3.5 just has the mode. */
  private static boolean isContext(Object value) {
    return value.getClass().getName().endsWith(".NumericEvalContext");
  }

  /** The names of a product's elements. Scala 2.13 tells them, before it just by a slow look at the class. */
  private static String[] fields(scala.Product of) {
    String[] names = (String[]) FIELDS.get(of.getClass());
    if (names == null) {
      names = new String[of.productArity()];
      try {
        Method fieldName = of.getClass().getMethod("productElementName", new Class[] {int.class});
        for (int i = 0; i < names.length; i++) {
          names[i] = (String) fieldName.invoke(of, new Object[] {Integer.valueOf(i)});
        }
      } catch (NoSuchMethodException before) {
        scala.collection.Iterator all = ScalaReflection$.MODULE$.getConstructorParameterNames(of.getClass()).iterator();
        for (int i = 0; i < names.length; i++) {
          names[i] = (String) all.next();
        }
      } catch (ReflectiveOperationException problem) {
        throw new RuntimeException(problem);
      }
      FIELDS.put(of.getClass(), names);
    }
    return names;
  }

  /** A class's name without its package; of an object without its sign. */
  private static String name(Class of) {
    Object name = NAMES.get(of);
    if (name == null) {
      String whole = of.getName();
      name = whole.substring(whole.lastIndexOf('.') + 1, whole.length() - (whole.endsWith("$") ? 1 : 0));
      NAMES.put(of, name);
    }
    return (String) name;
  }

  private static void quote(String text, StringBuilder out) {
    out.append('"');
    for (int i = 0; i < text.length(); i++) {
      char sign = text.charAt(i);
      if (sign == '"' || sign == '\\') {
        out.append('\\').append(sign);
      } else if (sign < ' ' || Character.isSurrogate(sign)) {
        out.append("\\u").append(Integer.toHexString(0x10000 | sign).substring(1));
      } else {
        out.append(sign);
      }
    }
    out.append('"');
  }
}
