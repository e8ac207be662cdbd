-- Quotas of what an app stores (contract 7.3).

ALTER TABLE apps ADD COLUMN image_bytes_per_day bigint;
ALTER TABLE apps ADD COLUMN image_bytes_max bigint;
ALTER TABLE apps ADD COLUMN images_per_day bigint;
ALTER TABLE apps ADD COLUMN images_max bigint;
ALTER TABLE apps ADD CONSTRAINT apps_quotas_positive CHECK (
    image_bytes_per_day >= 1 AND image_bytes_max >= 1 AND images_per_day >= 1 AND images_max >= 1);
COMMENT ON COLUMN apps.image_bytes_per_day IS 'Quota of this app (contract 7.3). Null takes the setting.';
COMMENT ON COLUMN apps.image_bytes_max IS 'Quota of this app (contract 7.3). Null takes the setting.';
COMMENT ON COLUMN apps.images_per_day IS 'Quota of this app (contract 7.3). Null takes the setting.';
COMMENT ON COLUMN apps.images_max IS 'Quota of this app (contract 7.3). Null takes the setting.';

CREATE TABLE image_usage (
    app_id       text   NOT NULL,
    day          date   NOT NULL,
    bytes_today  bigint NOT NULL,
    bytes        bigint NOT NULL,
    images_today bigint NOT NULL,
    images       bigint NOT NULL,
    CONSTRAINT image_usage_pkey PRIMARY KEY (app_id)
) WITH (fillfactor = 70);
COMMENT ON TABLE image_usage IS 'What each app stores. The transaction that keeps an image counts it here, and compares with the quotas.';
COMMENT ON COLUMN image_usage.app_id IS 'The app.';
COMMENT ON COLUMN image_usage.day IS 'Day (UTC) of the last new image, by the database''s clock.';
COMMENT ON COLUMN image_usage.bytes_today IS 'Bytes of the new images of that day.';
COMMENT ON COLUMN image_usage.bytes IS 'Bytes of all images of the app, as images.byte_length has them.';
COMMENT ON COLUMN image_usage.images_today IS 'Number of new images of that day.';
COMMENT ON COLUMN image_usage.images IS 'Number of all images of the app.';
INSERT INTO image_usage (app_id, day, bytes_today, bytes, images_today, images)
SELECT app_id, (now() AT TIME ZONE 'UTC')::date,
    coalesce(sum(byte_length) FILTER (WHERE is_of_today), 0), sum(byte_length),
    count(*) FILTER (WHERE is_of_today), count(*)
FROM (SELECT app_id, byte_length,
          (uploaded_at AT TIME ZONE 'UTC')::date = (now() AT TIME ZONE 'UTC')::date AS is_of_today
      FROM images) AS image
GROUP BY app_id;
