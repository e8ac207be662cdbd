-- Quotas of what an app stores (contract 7.3), and the sweep of images that nothing uses (contract 5.10).

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

-- Images of before count as uploaded now, so that none is swept at once.
ALTER TABLE images ADD COLUMN is_reported boolean NOT NULL DEFAULT false;
ALTER TABLE images ADD COLUMN last_uploaded_at timestamptz NOT NULL DEFAULT now();
COMMENT ON COLUMN images.is_reported IS 'True when an order report has named the image, now or earlier. It never becomes false.';
COMMENT ON COLUMN images.last_uploaded_at IS 'Database time of the last upload of the same picture by the app, while no report had named it.';
UPDATE images SET is_reported = true WHERE (app_id, img_id) IN (
    SELECT app_id, product_cover_img_id FROM orders
    UNION SELECT app_id, report ->> 'product_cover_img_id' FROM order_events);
-- Images that may be swept, the oldest first.
CREATE INDEX images_unreported ON images (last_uploaded_at) WHERE NOT is_reported;
