<?php
// Signs an exchange for Minitill and prints the form body to send.
//
// Try it: php sign.php PAY_KEY 'open_id=player-1&app_id=mygame&product_name=Double-up+card'
declare(strict_types=1);

// The signed fields, in ASCII order of their names. access_token is not among them.
const SIGNED = ['amount', 'app_id', 'biz_no', 'extension', 'open_id', 'os', 'pay_priority', 'product_desc',
    'product_info', 'product_name', 'ts', 'user_ip', 'zone_id'];

// Signs the values as they are, leaving out empty ones; only the body is encoded.
function signedBody(array $fields, string $payKey): string
{
    $text = [];
    foreach (SIGNED as $name) {
        if (($fields[$name] ?? '') !== '') {
            $text[] = "{$name}={$fields[$name]}";
        }
    }
    $fields['sign'] = hash_hmac('sha256', implode('&', $text), $payKey);
    return http_build_query($fields, '', '&');
}

if (realpath($argv[0] ?? '') === __FILE__) {
    parse_str($argv[2], $fields);
    echo signedBody($fields, $argv[1]), "\n";
}
