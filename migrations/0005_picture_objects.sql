-- Pictures outside the database, in a folder or in an S3-compatible store: the database alone tells
-- where contents are. Contents without a row here are in picture_parts.

CREATE TABLE picture_objects (
    name           text        NOT NULL,
    stored_in      text        NOT NULL,
    content_sha256 bytea       NOT NULL,
    byte_length    integer     NOT NULL,
    is_kept        boolean     NOT NULL DEFAULT false,
    created_at     timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT picture_objects_pkey PRIMARY KEY (name),
    CONSTRAINT picture_objects_stored_in_known CHECK (stored_in IN ('folder', 's3')),
    CONSTRAINT picture_objects_byte_length_positive CHECK (byte_length >= 1)
);
CREATE UNIQUE INDEX picture_objects_kept_once ON picture_objects (content_sha256) WHERE is_kept;
CREATE INDEX picture_objects_unfinished ON picture_objects (created_at) WHERE NOT is_kept;
COMMENT ON TABLE picture_objects IS 'Objects outside the database. The row is there before the object is written and goes before the object is removed: an object without a row is a leftover.';
COMMENT ON COLUMN picture_objects.name IS '48 lower-case hexadecimal characters, random, never used again.';
COMMENT ON COLUMN picture_objects.stored_in IS 'folder or s3.';
COMMENT ON COLUMN picture_objects.content_sha256 IS 'SHA-256 of the contents that it is to hold.';
COMMENT ON COLUMN picture_objects.byte_length IS 'Number of bytes of these.';
COMMENT ON COLUMN picture_objects.is_kept IS 'Whether it was written and read back, and is where these contents are. False while it is being written.';
COMMENT ON COLUMN picture_objects.created_at IS 'Database time; an unfinished one of an hour ago was given up.';

CREATE TABLE picture_stores (
    stored_in text        NOT NULL,
    id        text        NOT NULL,
    made_at   timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT picture_stores_pkey PRIMARY KEY (stored_in),
    CONSTRAINT picture_stores_stored_in_known CHECK (stored_in IN ('folder', 's3'))
);
COMMENT ON TABLE picture_stores IS 'Which folder and which S3 store is this database''s own: the same id stands in an object there. A wrong mount or prefix, or another Minitill''s store, is noticed before anything is written or removed.';
COMMENT ON COLUMN picture_stores.stored_in IS 'folder or s3.';
COMMENT ON COLUMN picture_stores.id IS '48 lower-case hexadecimal characters, random.';
COMMENT ON COLUMN picture_stores.made_at IS 'Database time.';
