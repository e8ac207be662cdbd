<?php
const SIGNED = ['open_id', 'app_id', 'zone_id', 'os', 'ts', 'user_ip', 'amount', 'pay_priority', 'biz_no',
    'product_name', 'product_info', 'product_desc', 'extension'];

/** The form body of an exchange: $fields as they are, with sign. */
function signed_body(string $pay_key, array $fields): string {
    $present = array_filter($fields, fn($value, $name) => in_array($name, SIGNED, true) && $value !== '',
        ARRAY_FILTER_USE_BOTH);
    ksort($present, SORT_STRING);
    $pairs = array_map(fn($name, $value) => "$name=$value", array_keys($present), $present);
    $fields['sign'] = hash_hmac('sha256', implode('&', $pairs), $pay_key);
    return http_build_query($fields);
}
