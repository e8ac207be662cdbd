-- What pictures look like, so that a block finds near copies too, and small copies of pictures.

CREATE TABLE thumbnails (
    content_sha256 bytea       NOT NULL,
    width          integer     NOT NULL,
    format         text        NOT NULL,
    bytes          bytea       NOT NULL,
    made_at        timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT thumbnails_pkey PRIMARY KEY (content_sha256, width),
    CONSTRAINT thumbnails_format_known CHECK (format IN ('png', 'jpeg')),
    CONSTRAINT thumbnails_width_positive CHECK (width >= 1)
);
ALTER TABLE thumbnails ALTER COLUMN bytes SET STORAGE EXTERNAL;
COMMENT ON TABLE thumbnails IS 'Small copies of pictures, made when they are first asked for. They can be made again.';
COMMENT ON COLUMN thumbnails.content_sha256 IS 'The contents they were made of.';
COMMENT ON COLUMN thumbnails.width IS 'Width and height in pixels.';
COMMENT ON COLUMN thumbnails.format IS 'png or jpeg.';
COMMENT ON COLUMN thumbnails.bytes IS 'The small picture.';
COMMENT ON COLUMN thumbnails.made_at IS 'Database time.';

ALTER TABLE images ADD COLUMN perceptual_hash bigint;
COMMENT ON COLUMN images.perceptual_hash IS 'What it looks like, 64 bits; null for a picture with too little in it, and for one uploaded before this column was there.';
COMMENT ON COLUMN images.content_sha256 IS 'SHA-256 of the contents that are kept: the picture without its metadata.';

ALTER TABLE picture_blocks ADD COLUMN perceptual_hashes bigint[] NOT NULL DEFAULT '{}';
COMMENT ON COLUMN picture_blocks.perceptual_hashes IS 'What the picture and its crops look like; empty for one with too little in it to tell copies by.';
COMMENT ON TABLE picture_blocks IS 'Pictures that the operator has blocked, for every app: these contents, and whatever looks nearly the same.';
