package lineage;

import java.lang.reflect.Method;
import java.lang.reflect.Parameter;

/** The fields of case classes, by their method that copies an object. Spark compiles this: see PlanText. */
public class CatalystFields {
  /** A line for each class of `names` (a line each) that is there: its name, then its fields. */
  public String of(String names) {
    StringBuilder out = new StringBuilder();
    String[] all = names.split("\n");
    for (int i = 0; i < all.length; i++) {
      Parameter[] fields = null;
      try {
        Method[] methods = Class.forName(all[i], false, getClass().getClassLoader()).getMethods();
        for (int j = 0; j < methods.length; j++) {
          if (methods[j].getName().equals("copy") && (fields == null || methods[j].getParameterCount() > fields.length)) {
            fields = methods[j].getParameters();
          }
        }
      } catch (ClassNotFoundException gone) {
        continue;
      }
      out.append(all[i]);
      for (int j = 0; fields != null && j < fields.length; j++) {
        out.append(' ').append(fields[j].getName());
      }
      out.append('\n');
    }
    return out.toString();
  }
}
