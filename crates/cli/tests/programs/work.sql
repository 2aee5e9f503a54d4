-- Enough rows that the cache grows to many megabytes.
PRAGMA cache_size = -65536;
CREATE TABLE reading (id INTEGER PRIMARY KEY, sensor INTEGER, value INTEGER, note TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000)
INSERT INTO reading SELECT i, i * 7919 % 101, i * i % 100003, 'note ' || (i * 31 % 997) FROM n;
CREATE INDEX by_sensor ON reading (sensor, value);
SELECT sensor, count(*), sum(value), max(note) FROM reading GROUP BY sensor ORDER BY sensor;
UPDATE reading SET value = value + sensor WHERE id % 3 = 0;
DELETE FROM reading WHERE id % 5 = 0;
SELECT count(*), sum(value), count(DISTINCT note) FROM reading;
SELECT a.sensor, count(*) FROM reading a JOIN reading b ON a.value = b.id WHERE a.sensor < 10 GROUP BY a.sensor;
