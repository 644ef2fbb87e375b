package org.polyplane.spark;

import java.io.Serializable;
import org.apache.spark.Aggregator;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractFunction2;

/**
 * Aggregator that says which reduction it is.
 *
 * <p>The shuffle manager knows a reduction by it; all other aggregators are closures to it. It
 * works with any shuffle manager.
 */
final class Reduction extends Aggregator<Object, Long, Long> {
  private static final long serialVersionUID = 1;

  private final Operator operator;
  private final Counts counts;

  Reduction(Operator operator, Counts counts) {
    super(new First(), new Merge(operator), new Merge(operator));
    this.operator = operator;
    this.counts = counts;
  }

  Operator operator() {
    return operator;
  }

  Counts counts() {
    return counts;
  }

  private static final class First extends AbstractFunction1<Long, Long>
      implements Serializable {
    private static final long serialVersionUID = 1;

    @Override
    public Long apply(Long value) {
      return value;
    }
  }

  private static final class Merge extends AbstractFunction2<Long, Long, Long>
      implements Serializable {
    private static final long serialVersionUID = 1;

    private final Operator operator;

    private Merge(Operator operator) {
      this.operator = operator;
    }

    @Override
    public Long apply(Long left, Long right) {
      return operator.apply(left, right);
    }
  }
}
