package lineage;

import org.apache.spark.sql.streaming.StreamingQueryListener;

/** Notices when streaming queries report of a batch, or end, so that nobody has to look again and again. Thread-safe. */
public class StreamListener extends StreamingQueryListener {
  private long count = 0;

  public void onQueryStarted(StreamingQueryListener.QueryStartedEvent event) {}

  public void onQueryProgress(StreamingQueryListener.QueryProgressEvent event) {
    wake();
  }

  public void onQueryTerminated(StreamingQueryListener.QueryTerminatedEvent event) {
    wake();
  }

  /** Have whoever waits look. */
  public synchronized void wake() {
    count++;
    notifyAll();
  }

  /** How many reports there were, once they are more than so many, or after a time. */
  public synchronized long reportsBeyond(long seen, long waitMs) throws InterruptedException {
    long deadline = System.nanoTime() + waitMs * 1000000L;
    while (count <= seen) {
      long leftMs = (deadline - System.nanoTime()) / 1000000L;
      if (leftMs <= 0) {
        break;
      }
      wait(leftMs);
    }
    return count;
  }
}
