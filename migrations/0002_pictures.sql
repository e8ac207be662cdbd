-- Pictures are kept by their contents, apart from the images that name them: the same contents are
-- kept once, whoever uploads them. The operator can
-- block a picture for every app (contract 5).

CREATE TABLE picture_parts (
    content_sha256 bytea   NOT NULL,
    part           integer NOT NULL,
    bytes          bytea   NOT NULL,
    CONSTRAINT picture_parts_pkey PRIMARY KEY (content_sha256, part),
    CONSTRAINT picture_parts_part_not_negative CHECK (part >= 0)
);
ALTER TABLE picture_parts ALTER COLUMN bytes SET STORAGE EXTERNAL;
COMMENT ON TABLE picture_parts IS 'The pictures that are kept in the database, in parts of 256 KiB, stored as they are: they are compressed already.';
COMMENT ON COLUMN picture_parts.content_sha256 IS 'SHA-256 of the whole contents.';
COMMENT ON COLUMN picture_parts.part IS 'Place of this part, from 0.';
COMMENT ON COLUMN picture_parts.bytes IS '262,144 bytes; the last part has the rest.';

CREATE TABLE picture_blocks (
    content_sha256 bytea       NOT NULL,
    reason         text        NOT NULL,
    blocked_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT picture_blocks_pkey PRIMARY KEY (content_sha256)
);
COMMENT ON TABLE picture_blocks IS 'Pictures that the operator has blocked, for every app.';
COMMENT ON COLUMN picture_blocks.content_sha256 IS 'The blocked contents.';
COMMENT ON COLUMN picture_blocks.reason IS 'For people.';
COMMENT ON COLUMN picture_blocks.blocked_at IS 'Database time.';

INSERT INTO picture_parts (content_sha256, part, bytes)
SELECT pictures.sha256, part, substring(pictures.bytes FROM part * 262144 + 1 FOR 262144)
FROM (
    SELECT DISTINCT ON (i.sha256) i.sha256, b.bytes
    FROM images i
    JOIN image_bytes b ON b.app_id = i.app_id AND b.img_id = i.img_id
    ORDER BY i.sha256
) AS pictures
CROSS JOIN LATERAL generate_series(0, (octet_length(pictures.bytes) - 1) / 262144) AS part;
DROP TABLE image_bytes;

ALTER TABLE images
    ADD COLUMN content_sha256 bytea,
    ADD COLUMN blocked_by     bytea;
UPDATE images SET content_sha256 = sha256;
ALTER TABLE images ALTER COLUMN content_sha256 SET NOT NULL;
CREATE UNIQUE INDEX images_img_id ON images (img_id);
CREATE INDEX images_content_sha256 ON images (content_sha256);
CREATE INDEX images_uploaded_at ON images (uploaded_at, img_id);
COMMENT ON COLUMN images.sha256 IS 'SHA-256 of the picture as it was uploaded, from its first byte to its last: the same bytes again give the same img_id.';
COMMENT ON COLUMN images.byte_length IS 'Number of bytes of the contents.';
COMMENT ON COLUMN images.content_sha256 IS 'SHA-256 of the contents that are kept.';
COMMENT ON COLUMN images.blocked_by IS 'The block it falls under: contents of picture_blocks. Null when it is not blocked.';
