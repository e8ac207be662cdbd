import static java.nio.charset.StandardCharsets.UTF_8;

import java.net.URLDecoder;
import java.net.URLEncoder;
import java.security.GeneralSecurityException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.StringJoiner;
import java.util.TreeMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * Signs a call of the wallet for Minitill and prints the form body to send (Java 11 or newer).
 *
 * <p>Try it: java Sign.java PAY_KEY 'open_id=player-1&app_id=mygame&product_name=Double-up+card'
 */
public final class Sign {
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

    public static void main(String[] arguments) throws GeneralSecurityException {
        Map<String, String> fields = new LinkedHashMap<>();
        for (String pair : arguments[1].split("&")) {
            String[] parts = pair.split("=", 2);
            fields.put(parts[0], URLDecoder.decode(parts[1], UTF_8));
        }
        System.out.println(signedBody(fields, arguments[0]));
    }
}
