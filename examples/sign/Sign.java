import static java.nio.charset.StandardCharsets.UTF_8;

import java.net.URLEncoder;
import java.util.*;
import java.util.stream.Collectors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

class Sign {
    static final Set<String> SIGNED = Set.of("open_id", "app_id", "zone_id", "os", "ts", "user_ip", "amount",
        "pay_priority", "biz_no", "product_name", "product_info", "product_desc", "extension");

    /** The form body of an exchange: `fields` as they are, with `sign`. */
    static String signedBody(String payKey, Map<String, String> fields) throws Exception {
        String string = new TreeMap<>(fields).entrySet().stream()
            .filter(field -> SIGNED.contains(field.getKey()) && !field.getValue().isEmpty())
            .map(field -> field.getKey() + "=" + field.getValue())
            .collect(Collectors.joining("&"));
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(payKey.getBytes(UTF_8), "HmacSHA256"));
        StringBuilder sign = new StringBuilder();
        for (byte part : mac.doFinal(string.getBytes(UTF_8))) sign.append(String.format("%02x", part));
        Map<String, String> all = new LinkedHashMap<>(fields);
        all.put("sign", sign.toString());
        return all.entrySet().stream()
            .map(field -> field.getKey() + "=" + URLEncoder.encode(field.getValue(), UTF_8))
            .collect(Collectors.joining("&"));
    }
}
