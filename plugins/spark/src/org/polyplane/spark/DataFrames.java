package org.polyplane.spark;

import java.util.List;
import org.apache.spark.api.java.JavaPairRDD;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import scala.Tuple2;

/** Reductions of a column of a DataFrame, by the way of {@link Reductions}. */
public final class DataFrames {
  private static final List<DataType> KEYS =
      List.of(
          DataTypes.StringType, DataTypes.BinaryType, DataTypes.IntegerType, DataTypes.LongType);

  private static final List<DataType> VALUES =
      List.of(
          DataTypes.ByteType, DataTypes.ShortType, DataTypes.IntegerType, DataTypes.LongType);

  private DataFrames() {}

  /**
   * Returns a row for each key: the key, and the reduction of its values as a long.
   *
   * <p>Values that are null are left out, with keys that have no other value. Sums wrap.
   *
   * @param operator add, max or min
   */
  public static Dataset<Row> reduce(
      Dataset<Row> frame, String key, String value, String operator, int partitions) {
    DataType keyType = type(frame, key, KEYS);
    type(frame, value, VALUES);
    // A string of SQL may have bytes that are no UTF-8, which a Java string has not.
    DataType inner = keyType.equals(DataTypes.StringType) ? DataTypes.BinaryType : keyType;
    Column values = frame.col(value).cast(DataTypes.LongType);
    Dataset<Row> two =
        frame.filter(values.isNotNull()).select(frame.col(key).cast(inner), values);
    JavaPairRDD<Object, Long> pairs =
        two.javaRDD().mapToPair(row -> new Tuple2<>(row.get(0), row.getLong(1)));
    var rows =
        Reductions.reduced(pairs, partitions, Operator.named(operator))
            .map(pair -> RowFactory.create(pair._1(), pair._2()));
    StructType schema =
        new StructType().add(key, inner).add(value, DataTypes.LongType, false);
    Dataset<Row> reduced = frame.sparkSession().createDataFrame(rows, schema);
    return reduced.select(reduced.col(key).cast(keyType).as(key), reduced.col(value));
  }

  private static DataType type(Dataset<Row> frame, String column, List<DataType> possible) {
    DataType type = frame.schema().apply(column).dataType();
    if (!possible.contains(type)) {
      throw new IllegalArgumentException(
          "column " + column + " is of " + type.simpleString() + ": cast it to one of "
              + String.join(", ", possible.stream().map(DataType::simpleString).toList()));
    }
    return type;
  }
}
