-- Indexes for who looks for orders and images. Of their columns none changes in a row but the cover image,
-- seldom, and blocked_by.

-- The newest orders of an app, and of all apps, an app at a time.
CREATE INDEX orders_newest ON orders (app_id, order_create_time, out_biz_order_no);
-- The orders of a player: the order center.
CREATE INDEX orders_of_player ON orders (app_id, open_id, order_create_time, out_biz_order_no);
-- The orders that use an image.
CREATE INDEX orders_with_cover ON orders (app_id, product_cover_img_id);
-- The newest images of an app.
CREATE INDEX images_of_app ON images (app_id, uploaded_at, img_id);
-- The images that fall under a block, and the newest blocked ones.
CREATE INDEX images_blocked_by ON images (blocked_by) WHERE blocked_by IS NOT NULL;

-- Room in each page for the next state of its orders: an update then writes to no index at all.
ALTER TABLE orders SET (fillfactor = 85);
