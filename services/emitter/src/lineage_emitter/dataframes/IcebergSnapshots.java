package lineage;

import org.apache.iceberg.events.CreateSnapshotEvent;
import org.apache.iceberg.events.Listener;
import org.apache.iceberg.events.Listeners;

/** Which snapshots of Iceberg's tables a thread commits; compiled as PlanText.java is. */
public class IcebergSnapshots implements Listener {
  private final ThreadLocal committed = new ThreadLocal();
  private boolean registered;

  /** Begin to observe the calling thread. */
  public void begin() {
    synchronized (this) {
      if (!registered) {
        Listeners.register(this, CreateSnapshotEvent.class);
        registered = true;
      }
    }
    committed.set(new StringBuilder());
  }

  /** End it, in the same thread: the ids of the snapshots that it committed, also in transactions that failed. */
  public String end() {
    Object ids = committed.get();
    committed.remove();
    return String.valueOf(ids);
  }

  public void notify(Object event) {
    StringBuilder ids = (StringBuilder) committed.get();
    if (ids != null) {
      ids.append(((CreateSnapshotEvent) event).snapshotId()).append(' ');
    }
  }
}
