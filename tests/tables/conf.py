"""Settings of a small Spark, in the form of ``spark-defaults.conf``."""

SMALL_SPARK = """
spark.master local[2]
spark.ui.enabled false
spark.ui.showConsoleProgress false
spark.driver.host 127.0.0.1
spark.sql.shuffle.partitions 1
spark.sql.adaptive.enabled false
spark.sql.codegen.wholeStage false
spark.sql.codegen.factoryMode NO_CODEGEN
"""
