package lineage;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.delta.OptimisticTransaction;
import org.apache.spark.sql.delta.TransactionExecutionObserver;
import org.apache.spark.sql.delta.TransactionExecutionObserver$;
import scala.Function0;
import scala.Option;

/** Observes which transactions of Delta Lake a thread begins; compiled as PlanText.java is. All else goes on to the observer before. */
public class DeltaTransactions implements TransactionExecutionObserver {
  private final Thread thread = Thread.currentThread();
  private final List begun = new ArrayList();
  private TransactionExecutionObserver before;
  private Option next = Option.empty();
  private volatile boolean ended;

  /** Begin to observe the calling thread. */
  public DeltaTransactions begin() {
    DeltaTransactions made = new DeltaTransactions();
    made.before = (TransactionExecutionObserver) TransactionExecutionObserver$.MODULE$.getObserver();
    TransactionExecutionObserver$.MODULE$.setObserver(made);
    return made;
  }

  /** End it, in the same thread: the id of each transaction that was begun, and behind it the table's path, a line each. */
  public String end() {
    ended = true;
    if (TransactionExecutionObserver$.MODULE$.getObserver() == this) {
      TransactionExecutionObserver$.MODULE$.setObserver(before);
    }
    StringBuilder out = new StringBuilder();
    for (int i = 0; i < begun.size(); i++) {
      out.append(begun.get(i)).append('\n');
    }
    return out.toString();
  }

  public OptimisticTransaction startingTransaction(Function0 start) {
    OptimisticTransaction transaction = before.startingTransaction(start);
    // Threads that are made meanwhile inherit this.
    if (!ended && Thread.currentThread() == thread) {
      begun.add(transaction.txnId() + " " + transaction.deltaLog().dataPath());
    }
    return transaction;
  }

  public TransactionExecutionObserver createChild() {
    return before.createChild();
  }

  public Object preparingCommit(Function0 prepare) {
    return before.preparingCommit(prepare);
  }

  public void beginDoCommit() {
    before.beginDoCommit();
  }

  public void beginBackfill() {
    before.beginBackfill();
  }

  public void beginPostCommit() {
    before.beginPostCommit();
  }

  public void transactionCommitted() {
    before.transactionCommitted();
  }

  public void transactionAborted() {
    before.transactionAborted();
  }

  public Option nextObserver() {
    return next;
  }

  public void nextObserver_$eq(Option observer) {
    next = observer;
  }
}
