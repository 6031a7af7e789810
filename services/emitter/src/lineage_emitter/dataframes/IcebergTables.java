package lineage;

import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestReader;
import org.apache.iceberg.MicroBatches;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.util.SnapshotUtil;
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

  /**
   * What a stream gives from behind so many files of one snapshot to so many of another: a line for each snapshot on the way, with what it
   * did, each followed by its files in the form of `files`. `bounds`: the first snapshot (below 0: the stream began when the table had none) and
   * the number of its files, those of the last one, and how many snapshots there are at most.
   */
  public String streamed(Table table, String bounds, Configuration conf) throws Exception {
    String[] given = bounds.split(" ");
    long from = Long.parseLong(given[0]);
    long to = Long.parseLong(given[2]);
    long end = Long.parseLong(given[3]);
    int most = Integer.parseInt(given[4]);
    StringBuilder out = new StringBuilder();
    long id = from < 0 ? first(table, to) : from;
    long place = from < 0 ? 0 : Long.parseLong(given[1]);
    for (int i = 0; i < most; i++) {
      Snapshot snapshot = named(table, Long.valueOf(id));
      boolean appends = snapshot.operation().equals("append");
      out.append("snapshot ").append(id).append(' ').append(snapshot.operation()).append('\n');
      if (appends) {
        List files = new ArrayList();
        Iterator tasks =
            MicroBatches.from(snapshot, table.io())
                .specsById(table.specs())
                .generate(place, id == to ? end : added(table, snapshot), Long.MAX_VALUE, false)
                .tasks()
                .iterator();
        while (tasks.hasNext()) {
          FileScanTask task = (FileScanTask) tasks.next();
          if (!task.deletes().isEmpty()) {
            throw new IllegalStateException("rows of " + task.file().location() + " are deleted by the snapshot that added it");
          }
          files.add(task.file());
        }
        write(files.iterator(), conf, out);
      }
      if (id == to) {
        return out.toString();
      }
      id = SnapshotUtil.snapshotAfter(table, id).snapshotId();
      place = 0;
    }
    throw new IllegalStateException("more than " + most + " snapshots");
  }

  /** How many files a snapshot has added, as streams of Iceberg count them. */
  private static long added(Table table, Snapshot snapshot) {
    Object count = snapshot.summary().get("added-data-files");
    if (count != null) {
      return Long.parseLong((String) count);
    }
    long found = 0;
    for (Iterator files = snapshot.addedDataFiles(table.io()).iterator(); files.hasNext(); files.next()) {
      found++;
    }
    return found;
  }

  /** The first snapshot of a table, which one is made of. */
  private static long first(Table table, long of) {
    Snapshot snapshot = named(table, Long.valueOf(of));
    while (snapshot.parentId() != null) {
      snapshot = named(table, snapshot.parentId());
    }
    return snapshot.snapshotId();
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
