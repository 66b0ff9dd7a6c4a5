INSERT INTO lakebed_tables (id, namespace, name, location, created, version, timestamp, schema_version, next_row_id, next_file_id, next_partition_id)
    VALUES ('old', 'default', 't', 'file:///lake/old', 1, 1, 2, 0, 10, 1, 1);
INSERT INTO lakebed_schemas VALUES (1, 0, '{"id":"old","schemaString":"{\"type\":\"struct\",\"fields\":[]}","partitionColumns":["dt"],"configuration":{},"format":{"provider":"parquet","options":{}}}', '{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["deletionVectors"],"writerFeatures":["deletionVectors","rowTracking"]}', true, true);
INSERT INTO lakebed_versions VALUES (1, 0, 'c0', 1, 'create', false, 0, '{}', NULL, NULL, NULL);
INSERT INTO lakebed_versions VALUES (1, 1, 'c1', 2, 'append', true, 10, '{}', NULL, NULL, NULL);
INSERT INTO lakebed_partitions VALUES (1, 0, '{"dt":"1"}');
INSERT INTO lakebed_files VALUES (1, 0, 'a', 0, 100, 5, 10, 0, 1, true, 1, NULL, NULL, NULL, NULL, NULL, '{"numRecords":10}');
