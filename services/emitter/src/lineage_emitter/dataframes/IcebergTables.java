package lineage;

import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestReader;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.execution.SparkOptimizer;

/** What recording a plan needs of Iceberg, and of Spark's optimiser for its tables; compiled as PlanText.java is. */
public class IcebergTables {
  /** A plan by Spark's own rules, but for the one that has a source compute: its tables stay, with all that is above. */
  public LogicalPlan optimised(
      CatalogManager manager, SessionCatalog catalog, ExperimentalMethods methods, LogicalPlan plan) {
    return (LogicalPlan) new Plain(manager, catalog, methods).execute(plan);
  }

  /** The data files of a snapshot, a line each: size, time, id of the first row, number of rows, data sequence number, path; "-" for null. */
  public String files(Table table, Object snapshot, Configuration conf) throws Exception {
    StringBuilder out = new StringBuilder();
    Iterator manifests = named(table, snapshot).dataManifests(table.io()).iterator();
    while (manifests.hasNext()) {
      ManifestReader files = ManifestFiles.read((ManifestFile) manifests.next(), table.io(), table.specs());
      try {
        write(files.iterator(), conf, out);
      } finally {
        files.close();
      }
    }
    return out.toString();
  }

  /** The data files that a snapshot added, in the same form. */
  public String added(Table table, Object snapshot, Configuration conf) throws Exception {
    StringBuilder out = new StringBuilder();
    write(named(table, snapshot).addedDataFiles(table.io()).iterator(), conf, out);
    return out.toString();
  }

  /** Whether a table has no snapshot, beside its own one, that was made after one `before`, by its id; null: none at all. */
  public boolean follows(Table table, Object before, long own) {
    Snapshot first = before == null ? null : table.snapshot(((Number) before).longValue());
    if (before != null && (first == null || first.sequenceNumber() == 0)) {
      // It has expired, or the table is of format version 1, which does not number them.
      return false;
    }
    Iterator all = table.snapshots().iterator();
    while (all.hasNext()) {
      Snapshot other = (Snapshot) all.next();
      if (other.snapshotId() != own && (first == null || other.sequenceNumber() > first.sequenceNumber())) {
        return false;
      }
    }
    return true;
  }

  private static Snapshot named(Table table, Object id) {
    Snapshot found = table.snapshot(((Long) id).longValue());
    if (found == null) {
      throw new IllegalStateException("snapshot " + id + " of " + table.name() + " has expired");
    }
    return found;
  }

  private static void write(Iterator files, Configuration conf, StringBuilder out) throws Exception {
    while (files.hasNext()) {
      DataFile file = (DataFile) files.next();
      Path path = new Path(file.location());
      long time = path.getFileSystem(conf).getFileStatus(path).getModificationTime();
      out.append(file.fileSizeInBytes()).append(' ').append(time);
      out.append(' ').append(orNone(file.firstRowId())).append(' ').append(file.recordCount());
      out.append(' ').append(orNone(file.dataSequenceNumber())).append(' ').append(file.location()).append('\n');
    }
  }

  private static String orNone(Object number) {
    return number == null ? "-" : number.toString();
  }

  private static class Plain extends SparkOptimizer {
    Plain(CatalogManager manager, SessionCatalog catalog, ExperimentalMethods methods) {
      super(manager, catalog, methods);
    }

    public scala.collection.immutable.Seq earlyScanPushDownRules() {
      scala.collection.mutable.ListBuffer kept = new scala.collection.mutable.ListBuffer();
      scala.collection.Iterator all = super.earlyScanPushDownRules().iterator();
      while (all.hasNext()) {
        Object rule = all.next();
        if (!rule.getClass().getSimpleName().startsWith("V2ScanRelationPushDown")) {
          kept.addOne(rule);
        }
      }
      return kept.toList();
    }
  }
}
