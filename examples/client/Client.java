import static java.nio.charset.StandardCharsets.UTF_8;

import com.sun.net.httpserver.Headers;
import com.sun.net.httpserver.HttpServer;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Base64;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.StringJoiner;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * A complete client of Minitill: the wallet, orders, uploads, notifications and a tiny game (Java 17 or newer).
 *
 * <p>It is for any number of threads.
 *
 * <p>Try it: java Client.java pay OPEN_ID AMOUNT BIZ_NO. README.md beside it has all commands and settings.
 */
public final class Client {
    static final int SUCCESS = 1, NO_TOKEN = 100200102, RATE_LIMITED = 10000305, NO_ANSWER = 10000500;
    static final int INSUFFICIENT = 10000601;
    /** The number was used before: for other content, or more than 48 hours ago. */
    static final List<Integer> NUMBER_USED = List.of(10000602, 10000603);
    /** A query has closed the number. It has no effect and never will, however many tries are on their way. */
    static final int CLOSED = 10000608;
    static final String USED = "unknown: this number was used before; query it";
    static final String UNKNOWN = "unknown: repeat with the same number";
    static final String FORM = "application/x-www-form-urlencoded";
    static final long WAIT_MAX_MS = 8_000;
    /** A token is renewed so long before its end. */
    static final long RENEW_MS = 60_000;
    /** The clocks of both sides may differ so much, and a notification may take so long. */
    static final long APART_MAX_SECONDS = 300;
    /** How much the game does at once, and when it tries again what could not be settled. */
    static final int WORKERS = 32, AGAIN_SECONDS = 30;
    static final String OPEN = "/openapi/mp/developer/";

    /** Minitill refused the call, and no try of it can have had an effect. */
    public static class Refused extends Exception {
        public final int code;

        Refused(int code, String msg) {
            super(msg);
            this.code = code;
        }
    }

    /** A try can have had an effect. Repeat with the same number; never take another one. */
    public static final class Unknown extends Refused {
        Unknown(int code, String msg) {
            super(code, msg);
        }
    }

    /** A notification that Minitill did not send, or not now. Answer it with 401, and do nothing more. */
    public static final class NotGenuine extends Exception {
        NotGenuine(String why) {
            super(why);
        }
    }

    /** An answer; then how many tries there were, and whether one of them ended without an answer. */
    public record Answer(int code, String body, boolean replayed, long retryAfterMs, int tries, boolean unsure) {
        String field(String name) {
            return Client.field(body, name);
        }

        /** The text of all fields of data, without the braces around it. */
        String data() {
            return body.replaceFirst("(?s).*?\"data\":\\s*\\{(.*)\\}\\s*\\}", "$1");
        }

        String msg() {
            return field("msg") != null ? field("msg") : field("error_msg");
        }
    }

    /** The event of a notification: its id, and the JSON that came. */
    public record Event(String id, String json) {
        String field(String name) {
            return Client.field(json, name);
        }
    }

    /** Makes the request of a try. */
    private interface Send {
        Answer with(String token) throws GeneralSecurityException, InterruptedException;
    }

    private record Kept(String token, long renewAt, Answer refusal) {}

    // A new connection speaks HTTP/1.1 at once. This client repeats no POST by itself.
    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    private final String base, appId, appSecret, payKey;
    private final long timeoutMs, totalMs;
    private Kept kept = new Kept(null, 0, null);

    /** timeoutMs is for one try. No other try begins after totalMs. */
    public Client(String base, String appId, String appSecret, String payKey, long timeoutMs, long totalMs) {
        this.base = base.replaceAll("/$", "");
        this.appId = appId;
        this.appSecret = appSecret;
        this.payKey = payKey;
        this.timeoutMs = timeoutMs;
        this.totalMs = totalMs;
    }

    /**
     * Exchanges coins for an order: the fields of docs/api.md but app_id, ts, access_token and sign.
     *
     * <p>The code of the answer is SUCCESS or INSUFFICIENT. sentBefore: this order may have been sent before, such as
     * before a restart.
     */
    public Answer pay(Map<String, String> order, boolean sentBefore)
            throws Refused, GeneralSecurityException, InterruptedException {
        return wallet("pay", order, sentBefore, true);
    }

    /** Gives gifted coins. Fields, sentBefore and errors are as in pay. */
    public Answer present(Map<String, String> present, boolean sentBefore)
            throws Refused, GeneralSecurityException, InterruptedException {
        return wallet("present", present, sentBefore, true);
    }

    /** Gives back an exchange, or a part of it. Fields, sentBefore and errors are as in pay. */
    public Answer cancel(Map<String, String> cancel, boolean sentBefore)
            throws Refused, GeneralSecurityException, InterruptedException {
        return wallet("cancel", cancel, sentBefore, true);
    }

    /** Orders a product of the prices, before the player pays money for it. Fields, sentBefore and errors are as in pay. */
    public Answer topup(Map<String, String> order, boolean sentBefore)
            throws Refused, GeneralSecurityException, InterruptedException {
        return wallet("topup", order, sentBefore, true);
    }

    /** Shows both purses. Fields and errors are as in pay. */
    public Answer balance(Map<String, String> player) throws Refused, GeneralSecurityException, InterruptedException {
        return wallet("balance", player, false, false);
    }

    /** Tells what became of a number. close: an unknown one is closed for ever. */
    public Answer query(String openId, String bizNo, boolean close)
            throws Refused, GeneralSecurityException, InterruptedException {
        Map<String, String> fields = Map.of("open_id", openId, "biz_no", bizNo, "close", close ? "1" : "0");
        return wallet("query", fields, false, close);
    }

    /** Gives up a number that got no answer. With any status but "closed" it had its effect before. */
    public Answer giveUp(String openId, String bizNo) throws Refused, GeneralSecurityException, InterruptedException {
        return query(openId, bizNo, true);
    }

    /** Reports an order, which is a JSON object. */
    public Answer report(String order) throws Refused, GeneralSecurityException, InterruptedException {
        return open(OPEN + "order/v1/report", "application/json", order.getBytes(UTF_8));
    }

    /** Uploads the bytes of a PNG or JPEG and gives the imgId. */
    public String upload(byte[] picture) throws Refused, GeneralSecurityException, InterruptedException {
        String mark = UUID.randomUUID().toString();
        String head = "--" + mark + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"cover.png\"\r\n\r\n";
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        body.writeBytes(head.getBytes(UTF_8));
        body.writeBytes(picture);
        body.writeBytes(("\r\n--" + mark + "--\r\n").getBytes(UTF_8));
        return open(OPEN + "file/img/uploadWithFile", "multipart/form-data; boundary=" + mark, body.toByteArray()).field("imgId");
    }

    /** Lets Minitill fetch a picture and gives the imgId. */
    public String uploadByUrl(String url) throws Refused, GeneralSecurityException, InterruptedException {
        return open(OPEN + "file/img/uploadWithUrl", FORM, encoded(Map.of("url", url)).getBytes(UTF_8)).field("imgId");
    }

    /** Tells the sandbox that a game under test has shipped. */
    public Answer noteShipment(String bizNo) throws Refused, GeneralSecurityException, InterruptedException {
        return open("/sandbox/v1/shipments", "application/json", ("{\"biz_no\":\"" + bizNo + "\"}").getBytes(UTF_8));
    }

    private Answer wallet(String call, Map<String, String> own, boolean sentBefore, boolean changes)
            throws Refused, GeneralSecurityException, InterruptedException {
        return call(sentBefore, changes, token -> {
            Map<String, String> fields = new LinkedHashMap<>(own);
            fields.put("app_id", appId);
            fields.put("access_token", token);
            fields.put("ts", String.valueOf(System.currentTimeMillis()));
            return send("/api/kpay/minigame/" + call, FORM, signedBody(fields, payKey).getBytes(UTF_8));
        });
    }

    private Answer open(String path, String kind, byte[] body)
            throws Refused, GeneralSecurityException, InterruptedException {
        return call(false, true, token -> {
            String query = encoded(Map.of("app_id", appId, "access_token", token));
            return send(path + "?" + query, kind, body);
        });
    }

    /**
     * Repeats a call until an answer decides. Each try makes its request anew, with a fresh token and ts.
     *
     * <p>changes: a try can have an effect, so a refusal does not tell what became of the tries before it.
     */
    private Answer call(boolean unsure, boolean changes, Send send)
            throws Refused, GeneralSecurityException, InterruptedException {
        long until = now() + totalMs, wait = 1_000;
        boolean renewed = false;
        for (int tries = 0; ; ) {
            Kept kept = accessToken();
            String token = kept.token();
            tries += token != null ? 1 : 0;
            Answer answer = token != null ? send.with(token) : kept.refusal();
            int code = answer.code();
            if (code == SUCCESS || code == INSUFFICIENT) {
                return new Answer(code, answer.body(), answer.replayed(), 0, tries, unsure);
            }
            if (code == NO_TOKEN && token != null && !renewed) {
                forget(token);
                renewed = true;
                continue;
            }
            unsure |= code == NO_ANSWER && token != null;
            if (NUMBER_USED.contains(code)) {
                throw new Unknown(code, USED);
            }
            if (code != NO_ANSWER && code != RATE_LIMITED) {
                boolean perhaps = unsure && changes && code != CLOSED;
                throw perhaps ? new Unknown(code, answer.msg()) : new Refused(code, answer.msg());
            }
            long pause = answer.retryAfterMs() > 0 ? answer.retryAfterMs() : wait;
            if (now() + pause > until) {
                throw unsure ? new Unknown(code, UNKNOWN) : new Refused(code, answer.msg());
            }
            Thread.sleep(pause);
            wait = Math.min(2 * wait, WAIT_MAX_MS);
        }
    }

    private static long now() {
        return TimeUnit.NANOSECONDS.toMillis(System.nanoTime());
    }

    /** The token that is kept, or a new one; or no token and the answer that explains why there is none. */
    private synchronized Kept accessToken() throws InterruptedException {
        if (kept.token() == null || now() >= kept.renewAt()) {
            Map<String, String> fields = new LinkedHashMap<>();
            fields.put("app_id", appId);
            fields.put("app_secret", appSecret);
            fields.put("grant_type", "client_credentials");
            Answer answer = send("/oauth2/access_token", FORM, encoded(fields).getBytes(UTF_8));
            boolean isNew = answer.code() == SUCCESS;
            long lives = isNew ? 1_000 * Long.parseLong(answer.field("expires_in")) : 0;
            kept = new Kept(isNew ? answer.field("access_token") : null, now() + lives - RENEW_MS, answer);
        }
        return kept;
    }

    private synchronized void forget(String token) {
        // Another thread may have renewed it already.
        if (token.equals(kept.token())) {
            kept = new Kept(null, 0, null);
        }
    }

    /** One request. What is no answer of Minitill gets the code NO_ANSWER, as its own system error has. */
    private Answer send(String path, String kind, byte[] body) throws InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(base + path)).header("Content-Type", kind)
                .POST(HttpRequest.BodyPublishers.ofByteArray(body)).build();
        CompletableFuture<HttpResponse<String>> sent = http.sendAsync(request, HttpResponse.BodyHandlers.ofString(UTF_8));
        try {
            HttpResponse<String> response = sent.get(timeoutMs, TimeUnit.MILLISECONDS);
            String after = response.headers().firstValue("Retry-After").orElse("");
            long retryAfterMs = after.matches("\\d{1,9}") ? 1_000 * Long.parseLong(after) : 0;
            boolean replayed = response.headers().firstValue("Idempotent-Replayed").orElse("").equals("true");
            Answer answer = new Answer(0, response.body().strip(), replayed, retryAfterMs, 0, false);
            String code = answer.field("code") != null ? answer.field("code") : answer.field("result");
            if (response.statusCode() >= 500 || code == null || !answer.body().matches("(?s)\\{.*\\}")) {
                return noAnswer("HTTP status " + response.statusCode(), retryAfterMs);
            }
            return new Answer(Integer.parseInt(code), answer.body(), replayed, retryAfterMs, 0, false);
        } catch (TimeoutException late) {
            sent.cancel(true);
            return noAnswer("it took too long", 0);
        } catch (ExecutionException | NumberFormatException error) {
            return noAnswer("the connection or the answer broke", 0);
        }
    }

    private static Answer noAnswer(String why, long retryAfterMs) {
        return new Answer(NO_ANSWER, "{\"msg\":\"no answer: " + why + "\"}", false, retryAfterMs, 0, false);
    }

    private static final List<String> NOT_SIGNED = List.of("access_token", "sign");

    /** Signs the values as they are, sorted by name, without empty ones; only the body is encoded. */
    public static String signedBody(Map<String, String> fields, String payKey) throws GeneralSecurityException {
        StringJoiner text = new StringJoiner("&");
        new TreeMap<>(fields).forEach((name, value) -> {
            if (!value.isEmpty() && !NOT_SIGNED.contains(name)) {
                text.add(name + "=" + value);
            }
        });
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(payKey.getBytes(UTF_8), "HmacSHA256"));
        StringBuilder sign = new StringBuilder();
        for (byte part : mac.doFinal(text.toString().getBytes(UTF_8))) {
            sign.append(String.format("%02x", part));
        }
        Map<String, String> signed = new LinkedHashMap<>(fields);
        signed.put("sign", sign.toString());
        StringJoiner body = new StringJoiner("&");
        signed.forEach((name, value) -> body.add(name + "=" + URLEncoder.encode(value, UTF_8)));
        return body.toString();
    }

    private static String encoded(Map<String, String> fields) {
        StringJoiner body = new StringJoiner("&");
        fields.forEach((name, value) -> body.add(name + "=" + URLEncoder.encode(value, UTF_8)));
        return body.toString();
    }

    /** A text or a number of a JSON object, by its name. With a JSON library of yours you do without this. */
    private static String field(String json, String name) {
        String text = "\"([^\"\\\\]*(?:\\\\.[^\"\\\\]*)*)\"";
        Matcher found = Pattern.compile("\"" + name + "\":\\s*(?:" + text + "|(-?\\d+))").matcher(json);
        return !found.find() ? null : found.group(1) != null ? found.group(1) : found.group(2);
    }

    /**
     * Gives the event of a notification in the standard format, with its id.
     *
     * <p>secrets: the receiver's whsec_..., or several with a space between. Then the values of the three headers,
     * null for one that is missing. body: the bytes as they came; JSON that was parsed and written again does not
     * verify. now: Unix seconds. Store the event by its id before you answer: it can come twice.
     */
    public static Event verifyNotification(String secrets, String webhookId, String webhookTimestamp,
            String webhookSignature, byte[] body, long now) throws NotGenuine, GeneralSecurityException {
        if (webhookTimestamp == null || !webhookTimestamp.matches("[0-9]{1,12}")) {
            throw new NotGenuine("webhook-timestamp: expected Unix seconds");
        }
        if (Math.abs(now - Long.parseLong(webhookTimestamp)) > APART_MAX_SECONDS) {
            throw new NotGenuine("webhook-timestamp: expected a time within 5 minutes of now");
        }
        boolean fits = false;
        for (String secret : secrets.split(" ", -1)) {
            Mac mac = macOf(secret);
            mac.update((webhookId + "." + webhookTimestamp + ".").getBytes(UTF_8));
            // The version v1 stands in what is compared, so signatures of other versions never fit.
            String expected = "v1," + Base64.getEncoder().encodeToString(mac.doFinal(body));
            for (String given : webhookSignature == null ? new String[0] : webhookSignature.split(" ")) {
                fits |= MessageDigest.isEqual(expected.getBytes(UTF_8), given.getBytes(UTF_8));
            }
        }
        if (!fits) {
            throw new NotGenuine("webhook-signature: no signature fits");
        }
        return new Event(webhookId, new String(body, UTF_8));
    }

    /** An empty key, with which anybody could sign, is an IllegalArgumentException. */
    private static Mac macOf(String secret) throws GeneralSecurityException {
        Mac mac = Mac.getInstance("HmacSHA256");
        byte[] key = Base64.getDecoder().decode(secret.startsWith("whsec_") ? secret.substring(6) : "");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        return mac;
    }

    /**
     * Gives the event of a notification in the platform's format, with its id.
     *
     * <p>appSecrets: the app secret, or several with a space between; while it changes, the new one and the former
     * one. kwaisign: the header, or null. body: the bytes as they came. This format holds no time of the try, so only
     * the id tells a repeat: keep the ids. Take the event by answering 200 with platformAnswer(event).
     */
    public static Event verifyPlatformNotification(String appSecrets, String kwaisign, byte[] body)
            throws NotGenuine, GeneralSecurityException {
        boolean fits = false;
        for (String secret : appSecrets.split(" ", -1)) {
            if (secret.isEmpty()) {
                throw new IllegalArgumentException("expected an app secret");
            }
            MessageDigest md5 = MessageDigest.getInstance("MD5");
            md5.update(body);
            String expected = HexFormat.of().formatHex(md5.digest(secret.getBytes(UTF_8)));
            fits |= kwaisign != null && MessageDigest.isEqual(expected.getBytes(UTF_8), kwaisign.getBytes(UTF_8));
        }
        if (!fits) {
            throw new NotGenuine("kwaisign: expected the MD5 of body and app secret");
        }
        String json = new String(body, UTF_8);
        return new Event(field(json, "message_id"), json);
    }

    /** The body of the answer that takes an event of the platform's format. Minitill sends it again after any other. */
    public static String platformAnswer(Event event) {
        return "{\"result\":1,\"message_id\":\"" + event.id() + "\"}";
    }

    /**
     * A tiny game: it buys an item for each credit, and ships what was paid.
     *
     * <p>A real game keeps in its database what this one keeps in memory: an event before it is answered, and a number
     * in the transaction that gives the item to the player.
     */
    public static final class Game {
        private final Client client;
        private final Set<String> seen = ConcurrentHashMap.newKeySet(), shipped = ConcurrentHashMap.newKeySet();
        private final ScheduledExecutorService workers = Executors.newScheduledThreadPool(WORKERS);

        public Game(Client client) {
            this.client = client;
        }

        /** Takes an event once. The work comes later, so that the answer need not wait for it. */
        public void take(Event event) {
            boolean known = List.of("wallet.credited", "exchange.succeeded").contains(event.field("type"));
            boolean isMock = event.json().contains("\"is_mock\":true");
            if (known && !isMock && seen.add(event.id())) {
                workers.execute(() -> work(event));
            }
        }

        private void work(Event event) {
            try {
                if (event.field("type").equals("wallet.credited")) {
                    buy(event);
                } else {
                    ship(event.field("biz_no"));
                }
            } catch (Exception error) {
                // Nobody knows yet what became of it. To do all of it again is safe: its number is the same.
                System.err.println(event.id() + ": " + error);
                workers.schedule(() -> work(event), AGAIN_SECONDS, TimeUnit.SECONDS);
            }
        }

        /** The number comes from the event, so an event that comes again after a restart buys nothing more. */
        private void buy(Event event) throws Exception {
            String openId = event.field("open_id"), bizNo = event.id().replace("_", "");
            boolean isPaid = false;
            try {
                isPaid = client.pay(orderOf(openId, "1", bizNo), true).code() == SUCCESS;
            } catch (Refused error) {
                // As after too few coins.
            }
            // Without success a try can still be on its way. To give the number up tells, and makes sure.
            if (isPaid || "paid".equals(client.giveUp(openId, bizNo).field("status"))) {
                ship(bizNo);
            }
        }

        private void ship(String bizNo) throws Exception {
            // The number is kept first: to ship twice is worse than to tell of it late.
            if (shipped.add(bizNo)) {
                System.out.println("{\"outcome\":\"shipped\",\"biz_no\":\"" + bizNo + "\"}");
                client.noteShipment(bizNo);
            }
        }
    }

    /** Serves a game at this port of 127.0.0.1, or at a free one for 0, until the program ends. */
    public static void play(Client client, String secrets, int port) throws Exception {
        for (String secret : secrets.split(" ", -1)) {
            macOf(secret);
        }
        Game game = new Game(client);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", request -> {
            byte[] body = request.getRequestBody().readAllBytes();
            Headers headers = request.getRequestHeaders();
            int status = 204;
            try {
                game.take(verifyNotification(secrets, headers.getFirst("webhook-id"),
                        headers.getFirst("webhook-timestamp"), headers.getFirst("webhook-signature"), body,
                        System.currentTimeMillis() / 1_000));
            } catch (NotGenuine error) {
                status = 401;
            } catch (GeneralSecurityException error) {
                throw new IOException(error);
            }
            request.sendResponseHeaders(status, -1);
            request.close();
        });
        server.start();
        System.out.println("{\"outcome\":\"playing\",\"port\":" + server.getAddress().getPort() + "}");
        Thread.currentThread().join();
    }

    private static Map<String, String> playerOf(String openId) {
        return Map.of("open_id", openId, "zone_id", "zone1_role1", "os", "android", "user_ip", "203.0.113.7");
    }

    private static Map<String, String> orderOf(String openId, String amount, String bizNo) {
        Map<String, String> order = new LinkedHashMap<>(playerOf(openId));
        order.putAll(Map.of("amount", amount, "biz_no", bizNo, "product_name", "Double-up card",
                "product_desc", "For one match",
                "product_info", "[{\"product_id\":1001,\"product_num\":1,\"product_type\":0}]"));
        return order;
    }

    /** What a command does; prints a line for each call, see README.md. Gives whether all succeeded. */
    private static boolean run(Client client, String command, List<String> words) throws Exception {
        Map<String, String> fields = new LinkedHashMap<>(playerOf(words.get(0)));
        switch (command) {
            case "pay", "pay-again":
                return each(words.subList(2, words.size()), number -> paid(
                        client.pay(orderOf(words.get(0), words.get(1), number), command.equals("pay-again"))));
            case "present":
                fields.put("amount", words.get(1));
                return each(words.subList(2, words.size()), number -> {
                    fields.put("biz_no", number);
                    return done(client.present(fields, false));
                });
            case "cancel":
                fields.putAll(Map.of("amount", words.get(1), "pay_biz_no", words.get(2)));
                return each(words.subList(3, words.size()), number -> {
                    fields.put("biz_no", number);
                    return done(client.cancel(fields, false));
                });
            case "topup":
                fields.put("product_id", words.get(1));
                return each(words.subList(2, words.size()), number -> {
                    fields.put("biz_no", number);
                    return done(client.topup(fields, false));
                });
            case "balance":
                return print(() -> done(client.balance(fields)));
            case "query":
                return each(words.subList(1, words.size()), number -> done(client.query(words.get(0), number, false)));
            case "give-up":
                return each(words.subList(1, words.size()), number -> done(client.giveUp(words.get(0), number)));
            case "report":
                String order = String.format("{\"open_id\":\"%s\",\"out_biz_order_no\":\"%s\",\"out_order_no\":\"%2$s\","
                        + "\"order_create_time\":%s,\"order_status\":%s,\"order_path\":\"%s\","
                        + "\"product_cover_img_id\":\"%s\"}", words.toArray());
                return print(() -> client.report(order) != null ? "\"done\"" : "");
            case "upload":
                byte[] picture = Files.readAllBytes(Path.of(words.get(0)));
                return print(() -> "\"done\",\"imgId\":\"" + client.upload(picture) + "\"");
            case "upload-url":
                return print(() -> "\"done\",\"imgId\":\"" + client.uploadByUrl(words.get(0)) + "\"");
            case "verify":
                byte[] sent = System.in.readAllBytes();
                String secrets = System.getenv().getOrDefault("RECEIVER_SECRET", "");
                long now = words.size() > 3 ? Long.parseLong(words.get(3)) : System.currentTimeMillis() / 1_000;
                return print(() -> shown(
                        verifyNotification(secrets, words.get(0), words.get(1), words.get(2), sent, now), ""));
            case "verify-platform":
                byte[] body = System.in.readAllBytes();
                String appSecrets = System.getenv().getOrDefault("APP_SECRET", "");
                return print(() -> {
                    Event event = verifyPlatformNotification(appSecrets, words.get(0), body);
                    return shown(event, "\"answer\":" + platformAnswer(event) + ",");
                });
            case "play":
                play(client, System.getenv().getOrDefault("RECEIVER_SECRET", ""), Integer.parseInt(words.get(0)));
                return true;
            default:
                throw new IOException(command + ": no such command");
        }
    }

    private static String paid(Answer answer) {
        if (answer.code() == INSUFFICIENT) {
            // Not final: an earlier try can still be on its way.
            return "\"insufficient\",\"final\":" + !answer.unsure() + ",\"tries\":" + answer.tries();
        }
        return "\"paid\",\"replayed\":" + answer.replayed() + ",\"tries\":" + answer.tries() + ",\"freeBalance\":"
                + answer.field("freeBalance") + ",\"chargeBalance\":" + answer.field("chargeBalance");
    }

    private static String done(Answer answer) {
        String counted = "\"replayed\":" + answer.replayed() + ",\"tries\":" + answer.tries();
        return "\"done\"," + counted + "," + answer.data();
    }

    /** The id, these fields more, and the fields of the event without the braces around them. */
    private static String shown(Event event, String more) {
        String fields = event.json().substring(event.json().indexOf('{') + 1, event.json().lastIndexOf('}'));
        return "\"done\",\"id\":\"" + event.id() + "\"," + more + fields;
    }

    private interface Job {
        String run(String number) throws Exception;
    }

    private static boolean each(List<String> numbers, Job job) throws Exception {
        boolean succeeded = true;
        for (String number : numbers) {
            succeeded &= print(() -> job.run(number));
        }
        return succeeded;
    }

    private static boolean print(Callable<String> job) throws Exception {
        String line;
        try {
            line = job.call();
        } catch (Refused error) {
            String outcome = error instanceof Unknown ? "unknown" : "refused";
            // The text is still escaped as JSON.
            line = String.format("\"%s\",\"code\":%d,\"msg\":\"%s\"", outcome, error.code, error.getMessage());
        } catch (NotGenuine error) {
            line = "\"not_genuine\",\"msg\":\"" + error.getMessage() + "\"";
        }
        // In UTF-8, whatever the locale is.
        System.out.writeBytes(("{\"outcome\":" + line + "}\n").getBytes(UTF_8));
        System.out.flush();
        return line.startsWith("\"paid\"") || line.startsWith("\"done\"");
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, String> setting = System.getenv();
        Client client = new Client(setting.getOrDefault("MINITILL_BASE", "http://127.0.0.1:8080"),
                setting.get("APP_ID"), setting.get("APP_SECRET"), setting.get("PAY_KEY"),
                Long.parseLong(setting.getOrDefault("MINITILL_TIMEOUT_MS", "5000")),
                Long.parseLong(setting.getOrDefault("MINITILL_TOTAL_MS", "60000")));
        List<String> words = List.of(arguments);
        System.exit(run(client, words.get(0), words.subList(1, words.size())) ? 0 : 1);
    }
}
