<?php
// Signs a call of the wallet for Minitill and prints the form body to send.
//
// Try it: php sign.php PAY_KEY 'open_id=player-1&app_id=mygame&product_name=Double-up+card'
declare(strict_types=1);

const NOT_SIGNED = ['access_token', 'sign'];

// Signs the values as they are, sorted by name, without empty ones; only the body is encoded.
function signedBody(array $fields, string $payKey): string
{
    $text = [];
    ksort($fields, SORT_STRING);
    foreach ($fields as $name => $value) {
        if ($value !== '' && !in_array($name, NOT_SIGNED, true)) {
            $text[] = "{$name}={$value}";
        }
    }
    $fields['sign'] = hash_hmac('sha256', implode('&', $text), $payKey);
    return http_build_query($fields, '', '&');
}

if (realpath($argv[0] ?? '') === __FILE__) {
    parse_str($argv[2], $fields);
    echo signedBody($fields, $argv[1]), "\n";
}
