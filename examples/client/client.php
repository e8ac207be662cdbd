<?php
// A complete client of Minitill: the wallet, orders, uploads, notifications and a tiny game (PHP 8.1, with curl).
//
// Try it: php client.php pay OPEN_ID AMOUNT BIZ_NO. README.md beside it has all commands and settings.
declare(strict_types=1);

require_once __DIR__ . '/../sign/sign.php';

const SUCCESS = 1, NO_TOKEN = 100200102, RATE_LIMITED = 10000305, NO_ANSWER = 10000500, INSUFFICIENT = 10000601;
// The number was used before: for other content, or more than 48 hours ago.
const NUMBER_USED = [10000602, 10000603];
// A query has closed the number. It has no effect and never will, however many tries are on their way.
const CLOSED = 10000608;
const USED = 'unknown: this number was used before; query it';
const UNKNOWN = 'unknown: repeat with the same number';
const FORM = 'application/x-www-form-urlencoded', JSON = 'application/json';
const WAIT_MAX_SECONDS = 8;
// A token is renewed so long before its end.
const RENEW_SECONDS = 60;
// The clocks of both sides may differ so much, and a notification may take so long.
const APART_MAX_SECONDS = 300;
// How much the game does at once, and when it tries again what could not be settled.
const WORKERS = 32, AGAIN_SECONDS = 30;
const OPEN = '/openapi/mp/developer/';

// Minitill refused the call, and no try of it can have had an effect. The code is Minitill's.
class Refused extends Exception
{
}

// A try can have had an effect. Repeat with the same number; never take another one.
final class Unknown extends Refused
{
}

// A notification that Minitill did not send, or not now. Answer it with 401, and do nothing more.
final class NotGenuine extends Exception
{
}

final class Answer
{
    // How many tries there were, and whether one of them ended without an answer.
    public int $tries = 1;
    public bool $unsure = false;

    public function __construct(
        public readonly int $code,
        public readonly string $msg,
        public readonly array $body,
        public readonly bool $replayed,
        public readonly int $retryAfter,
    ) {
    }
}

// A server that runs for each request afresh keeps the token in a cache that its processes share.
final class Client
{
    private ?string $token = null;
    private float $renewAt = 0;
    private bool $renews = false;

    // timeout: milliseconds for one try. total: milliseconds after which no other try begins.
    public function __construct(
        private readonly string $base,
        private readonly string $appId,
        private readonly string $appSecret,
        private readonly string $payKey,
        private readonly int $timeout = 5000,
        private readonly int $total = 60000,
    ) {
    }

    // Exchanges coins for an order: the fields of docs/api.md but app_id, ts, access_token and sign.
    //
    // The code of the answer is SUCCESS or INSUFFICIENT. $sentBefore: this order may have been sent
    // before, such as before a restart. Throws Refused or Unknown.
    public function pay(array $order, bool $sentBefore = false): Answer
    {
        return $this->wallet('pay', $order, $sentBefore);
    }

    // Gives gifted coins. Fields, $sentBefore and errors are as in pay.
    public function present(array $present, bool $sentBefore = false): Answer
    {
        return $this->wallet('present', $present, $sentBefore);
    }

    // Gives back an exchange, or a part of it. Fields, $sentBefore and errors are as in pay.
    public function cancel(array $cancel, bool $sentBefore = false): Answer
    {
        return $this->wallet('cancel', $cancel, $sentBefore);
    }

    // Orders a product of the prices, before the player pays money for it. Fields, $sentBefore and errors are as in pay.
    public function topup(array $order, bool $sentBefore = false): Answer
    {
        return $this->wallet('topup', $order, $sentBefore);
    }

    // Shows both purses. Fields and errors are as in pay.
    public function balance(array $player): Answer
    {
        return $this->wallet('balance', $player, changes: false);
    }

    // Tells what became of a number. $close: an unknown one is closed for ever. Throws Refused or Unknown.
    public function query(string $openId, string $bizNo, bool $close = false): Answer
    {
        $fields = ['open_id' => $openId, 'biz_no' => $bizNo, 'close' => $close ? '1' : '0'];
        return $this->wallet('query', $fields, changes: $close);
    }

    // Gives up a number that got no answer. With any status but "closed" it had its effect before.
    public function giveUp(string $openId, string $bizNo): Answer
    {
        return $this->query($openId, $bizNo, true);
    }

    // Reports an order. Throws Refused or Unknown.
    public function report(array $order): Answer
    {
        $body = json_encode($order, JSON_THROW_ON_ERROR);
        return $this->call(fn ($token) => $this->send($this->open(OPEN . 'order/v1/report', $token), JSON, $body));
    }

    // Uploads the bytes of a PNG or JPEG and gives the imgId. Throws Refused or Unknown.
    public function upload(string $picture): string
    {
        $mark = bin2hex(random_bytes(16));
        $head = "--{$mark}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"cover.png\"\r\n\r\n";
        [$kind, $body] = ["multipart/form-data; boundary={$mark}", "{$head}{$picture}\r\n--{$mark}--\r\n"];
        $answer = $this->call(fn ($token) => $this->send($this->open(OPEN . 'file/img/uploadWithFile', $token), $kind, $body));
        return $answer->body['data']['imgId'];
    }

    // Lets Minitill fetch a picture and gives the imgId. Throws Refused or Unknown.
    public function uploadByUrl(string $url): string
    {
        $body = http_build_query(['url' => $url]);
        $answer = $this->call(fn ($token) => $this->send($this->open(OPEN . 'file/img/uploadWithUrl', $token), FORM, $body));
        return $answer->body['data']['imgId'];
    }

    // Tells the sandbox that a game under test has shipped. Throws Refused or Unknown.
    public function noteShipment(string $bizNo): Answer
    {
        $body = json_encode(['biz_no' => $bizNo], JSON_THROW_ON_ERROR);
        return $this->call(fn ($token) => $this->send($this->open('/sandbox/v1/shipments', $token), JSON, $body));
    }

    private function wallet(string $call, array $fields, bool $sentBefore = false, bool $changes = true): Answer
    {
        return $this->call(function (string $token) use ($call, $fields) {
            $own = ['app_id' => $this->appId, 'access_token' => $token, 'ts' => (string) (int) (microtime(true) * 1000)];
            return $this->send("/api/kpay/minigame/{$call}", FORM, signedBody($own + $fields, $this->payKey));
        }, $sentBefore, $changes);
    }

    private function open(string $path, string $token): string
    {
        $query = ['app_id' => $this->appId, 'access_token' => $token];
        return "{$path}?" . http_build_query($query);
    }

    // Repeats a call until an answer decides. Each try makes its request anew, with a fresh token and ts.
    // $changes: a try can have an effect, so a refusal does not tell what became of the tries before it.
    private function call(callable $send, bool $unsure = false, bool $changes = true): Answer
    {
        $until = microtime(true) + $this->total / 1000;
        for ($wait = 1, $tries = 0, $renewed = false; ;) {
            $answer = $this->renew();
            $token = $this->token;
            if ($answer === null) {
                $tries++;
                $answer = $send($token);
            }
            if (in_array($answer->code, [SUCCESS, INSUFFICIENT], true)) {
                [$answer->tries, $answer->unsure] = [$tries, $unsure];
                return $answer;
            }
            if ($answer->code === NO_TOKEN && $token !== null && !$renewed) {
                // Another Fiber may have renewed it already.
                $this->token = $this->token === $token ? null : $this->token;
                $renewed = true;
                continue;
            }
            $unsure = $unsure || ($answer->code === NO_ANSWER && $token !== null);
            if (in_array($answer->code, NUMBER_USED, true)) {
                throw new Unknown(USED, $answer->code);
            }
            if (!in_array($answer->code, [NO_ANSWER, RATE_LIMITED], true)) {
                $refusal = $unsure && $changes && $answer->code !== CLOSED ? Unknown::class : Refused::class;
                throw new $refusal($answer->msg, $answer->code);
            }
            $pause = $answer->retryAfter ?: $wait;
            if (microtime(true) + $pause > $until) {
                throw $unsure ? new Unknown(UNKNOWN, $answer->code) : new Refused($answer->msg, $answer->code);
            }
            pause($pause);
            $wait = min(2 * $wait, WAIT_MAX_SECONDS);
        }
    }

    // Gets a new token where none is kept. Gives the answer that explains why there is none, else null.
    private function renew(): ?Answer
    {
        while ($this->renews) {
            Fiber::suspend();
        }
        if ($this->token !== null && microtime(true) < $this->renewAt) {
            return null;
        }
        [$this->token, $this->renews] = [null, true];
        $fields = ['app_id' => $this->appId, 'app_secret' => $this->appSecret, 'grant_type' => 'client_credentials'];
        $answer = $this->send('/oauth2/access_token', FORM, http_build_query($fields));
        $this->renews = false;
        if ($answer->code !== SUCCESS) {
            return $answer;
        }
        $this->token = $answer->body['access_token'];
        $this->renewAt = microtime(true) + $answer->body['expires_in'] - RENEW_SECONDS;
        return null;
    }

    // One request. What is no answer of Minitill gets the code NO_ANSWER, as its own system error has.
    private function send(string $path, string $kind, string $body): Answer
    {
        // On a connection that was used before, curl would repeat a request by itself.
        $request = curl_init(rtrim($this->base, '/') . $path);
        $headers = [];
        curl_setopt_array($request, [
            CURLOPT_POSTFIELDS => $body,
            CURLOPT_HTTPHEADER => ["Content-Type: {$kind}", 'Expect:'],
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_TIMEOUT_MS => $this->timeout,
            CURLOPT_HEADERFUNCTION => function ($request, $line) use (&$headers) {
                [$name, $value] = explode(':', $line, 2) + [1 => ''];
                $headers[strtolower($name)] = trim($value);
                return strlen($line);
            },
        ]);
        $text = fetched($request);
        $status = curl_getinfo($request, CURLINFO_RESPONSE_CODE);
        $after = $headers['retry-after'] ?? '';
        $retryAfter = ctype_digit($after) ? (int) $after : 0;
        $read = is_string($text) ? json_decode($text, true) : null;
        $code = $read['code'] ?? $read['result'] ?? null;
        if ($status >= 500 || !is_int($code)) {
            $why = curl_error($request) ?: "HTTP status {$status}";
            return new Answer(NO_ANSWER, "no answer: {$why}", [], false, $retryAfter);
        }
        $replayed = ($headers['idempotent-replayed'] ?? '') === 'true';
        return new Answer($code, $read['msg'] ?? $read['error_msg'] ?? '', $read, $replayed, $retryAfter);
    }
}

// Waits. In a Fiber, others run meanwhile.
function pause(float $seconds): void
{
    for ($until = microtime(true) + $seconds; Fiber::getCurrent() !== null && microtime(true) < $until;) {
        Fiber::suspend();
    }
    usleep((int) max(0, 1e6 * ($until - microtime(true))));
}

// As curl_exec. In a Fiber, others run meanwhile.
function fetched(CurlHandle $request): string|bool
{
    if (Fiber::getCurrent() === null) {
        return curl_exec($request);
    }
    $multi = curl_multi_init();
    curl_multi_add_handle($multi, $request);
    while (curl_multi_exec($multi, $running) === CURLM_OK && $running) {
        Fiber::suspend();
    }
    $ended = curl_multi_info_read($multi);
    return $ended && $ended['result'] === CURLE_OK ? curl_multi_getcontent($request) : false;
}

// Gives the event of a notification in the standard format, with its id. Throws NotGenuine.
//
// $secrets: the receiver's whsec_..., or several with a space between. Then the values of the three headers, such
// as $_SERVER['HTTP_WEBHOOK_ID'], null for one that is missing. $body: the bytes as they came, which are
// file_get_contents('php://input'); JSON that was parsed and written again does not verify. $now: Unix seconds,
// for tests. Store the event by its id before you answer: it can come twice.
function verifyNotification(
    string $secrets,
    ?string $webhookId,
    ?string $webhookTimestamp,
    ?string $webhookSignature,
    string $body,
    ?int $now = null,
): array {
    $keys = array_map(keyOf(...), explode(' ', $secrets));
    if (!preg_match('/\A[0-9]{1,12}\z/', $webhookTimestamp ?? '')) {
        throw new NotGenuine('webhook-timestamp: expected Unix seconds');
    }
    if (abs(($now ?? time()) - (int) $webhookTimestamp) > APART_MAX_SECONDS) {
        throw new NotGenuine('webhook-timestamp: expected a time within 5 minutes of now');
    }
    foreach ($keys as $key) {
        $hmac = hash_hmac('sha256', "{$webhookId}.{$webhookTimestamp}.{$body}", $key, true);
        foreach (explode(' ', $webhookSignature ?? '') as $signature) {
            // The version v1 stands in what is compared, so signatures of other versions never fit.
            if (hash_equals('v1,' . base64_encode($hmac), $signature)) {
                return ['id' => $webhookId] + json_decode($body, true, flags: JSON_THROW_ON_ERROR);
            }
        }
    }
    throw new NotGenuine('webhook-signature: no signature fits');
}

// The key in a secret. A setting that is missing must not become an empty key: anybody could sign with it.
function keyOf(string $secret): string
{
    $key = str_starts_with($secret, 'whsec_') ? base64_decode(substr($secret, 6), true) : '';
    return $key ?: throw new InvalidArgumentException('expected a secret of a receiver: whsec_ and base64');
}

// Gives the event of a notification in the platform's format, with its id. Throws NotGenuine.
//
// $appSecrets: the app secret, or several with a space between; while it changes, the new one and the former one.
// $kwaisign: the header, or null. $body: the bytes as they came. This format holds no time of the try, so only the
// id tells a repeat: keep the ids. Take the event by answering 200 with platformAnswer($event).
function verifyPlatformNotification(string $appSecrets, ?string $kwaisign, string $body): array
{
    foreach (explode(' ', $appSecrets) as $secret) {
        if ($secret === '') {
            throw new InvalidArgumentException('expected an app secret');
        }
        if (hash_equals(md5($body . $secret), $kwaisign ?? '')) {
            $event = json_decode($body, true, flags: JSON_THROW_ON_ERROR);
            return ['id' => $event['message_id']] + $event;
        }
    }
    throw new NotGenuine('kwaisign: expected the MD5 of body and app secret');
}

// The body of the answer that takes an event of the platform's format. Minitill sends it again after any other.
function platformAnswer(array $event): string
{
    return json_encode(['result' => 1, 'message_id' => $event['id']], JSON_THROW_ON_ERROR);
}

// A tiny game: it buys an item for each credit, and ships what was paid.
//
// A real game keeps in its database what this one keeps in memory: an event before it is answered, and a number
// in the transaction that gives the item to the player.
final class Game
{
    private array $seen = [], $shipped = [], $queue = [];
    private int $busy = 0;

    public function __construct(private readonly Client $client)
    {
    }

    // Takes an event once. The work comes later, so that the answer need not wait for it.
    public function take(array $event): void
    {
        $known = in_array($event['type'] ?? '', ['wallet.credited', 'exchange.succeeded'], true);
        if ($known && !($event['is_mock'] ?? false) && isNew($this->seen, $event['id'])) {
            $this->queue[] = $event;
        }
    }

    // The work that can begin now, for a Fiber of its own; null: none.
    public function next(): ?callable
    {
        if ($this->busy >= WORKERS || !$this->queue) {
            return null;
        }
        $this->busy++;
        $event = array_shift($this->queue);
        return fn () => $this->work($event);
    }

    private function work(array $event): void
    {
        try {
            $event['type'] === 'wallet.credited' ? $this->buy($event) : $this->ship($event['data']['biz_no']);
            $this->busy--;
        } catch (Throwable $error) {
            // Nobody knows yet what became of it. To do all of it again is safe: its number is the same.
            fwrite(STDERR, "{$event['id']}: {$error->getMessage()}\n");
            $this->busy--;
            pause(AGAIN_SECONDS);
            $this->queue[] = $event;
        }
    }

    // The number comes from the event, so an event that comes again after a restart buys nothing more.
    private function buy(array $event): void
    {
        [$openId, $bizNo] = [$event['data']['open_id'], str_replace('_', '', $event['id'])];
        try {
            $isPaid = $this->client->pay(orderOf($openId, '1', $bizNo), true)->code === SUCCESS;
        } catch (Refused) {
            $isPaid = false;
        }
        // Without success a try can still be on its way. To give the number up tells, and makes sure.
        if ($isPaid || $this->client->giveUp($openId, $bizNo)->body['data']['status'] === 'paid') {
            $this->ship($bizNo);
        }
    }

    private function ship(string $bizNo): void
    {
        // The number is kept first: to ship twice is worse than to tell of it late.
        if (isNew($this->shipped, $bizNo)) {
            echo json_encode(['outcome' => 'shipped', 'biz_no' => $bizNo]), "\n";
            $this->client->noteShipment($bizNo);
        }
    }
}

function isNew(array &$known, string $name): bool
{
    $isNew = !isset($known[$name]);
    $known[$name] = true;
    return $isNew;
}

// Serves a game at this port of 127.0.0.1, or at a free one for 0, until the program ends. Each connection and
// each piece of work is a Fiber, so one process answers first and works later.
function play(Client $client, string $secrets, int $port): never
{
    array_map(keyOf(...), explode(' ', $secrets));
    $game = new Game($client);
    $server = stream_socket_server("tcp://127.0.0.1:{$port}") ?: exit(1);
    $address = stream_socket_get_name($server, false);
    echo json_encode(['outcome' => 'playing', 'port' => (int) substr($address, strlen('127.0.0.1:'))]), "\n";
    for ($fibers = []; ;) {
        // While something is under way, it goes on 100 times a second.
        [$ready, $none] = [[$server], null];
        stream_select($ready, $none, $none, $fibers ? 0 : null, $fibers ? 10_000 : null);
        if ($ready && $connection = @stream_socket_accept($server, 0)) {
            $fibers[] = new Fiber(fn () => receive($game, $secrets, $connection));
        }
        foreach ($fibers as $at => $fiber) {
            $fiber->isStarted() ? $fiber->resume() : $fiber->start();
            if ($fiber->isTerminated()) {
                unset($fibers[$at]);
            }
        }
        while ($work = $game->next()) {
            $fibers[] = new Fiber($work);
        }
    }
}

// Takes the request of a connection, and answers it.
function receive(Game $game, string $secrets, mixed $connection): void
{
    stream_set_blocking($connection, false);
    for ($text = ''; ;) {
        $text .= @stream_get_contents($connection);
        [$head, $body] = explode("\r\n\r\n", $text, 2) + [1 => null];
        $header = fn ($name) => preg_match("/^{$name}: *(.*?)\r?$/mi", $head, $found) ? $found[1] : null;
        if ($body !== null && strlen($body) >= (int) $header('content-length')) {
            break;
        }
        if (feof($connection)) {
            return;
        }
        Fiber::suspend();
    }
    try {
        $given = array_map($header, ['webhook-id', 'webhook-timestamp', 'webhook-signature']);
        $game->take(verifyNotification($secrets, ...$given, body: $body));
        $status = '204 No Content';
    } catch (NotGenuine) {
        $status = '401 Unauthorized';
    }
    @fwrite($connection, "HTTP/1.1 {$status}\r\nConnection: close\r\n\r\n");
    fclose($connection);
}

function playerOf(string $openId): array
{
    return ['open_id' => $openId, 'zone_id' => 'zone1_role1', 'os' => 'android', 'user_ip' => '203.0.113.7'];
}

function orderOf(string $openId, string $amount, string $bizNo): array
{
    return playerOf($openId) + [
        'amount' => $amount, 'biz_no' => $bizNo, 'product_name' => 'Double-up card', 'product_desc' => 'For one match',
        'product_info' => '[{"product_id":1001,"product_num":1,"product_type":0}]',
    ];
}

// What a command asks for, one function for each line that it prints; see README.md.
function jobs(Client $client, string $command, string ...$words): iterable
{
    $player = playerOf($words[0]);
    if ($command === 'pay' || $command === 'pay-again') {
        foreach (array_slice($words, 2) as $number) {
            $order = orderOf($words[0], $words[1], $number);
            yield fn () => paid($client->pay($order, $command === 'pay-again'));
        }
    } elseif ($command === 'present') {
        foreach (array_slice($words, 2) as $number) {
            yield fn () => done($client->present($player + ['amount' => $words[1], 'biz_no' => $number]));
        }
    } elseif ($command === 'cancel') {
        foreach (array_slice($words, 3) as $number) {
            $cancel = $player + ['amount' => $words[1], 'pay_biz_no' => $words[2], 'biz_no' => $number];
            yield fn () => done($client->cancel($cancel));
        }
    } elseif ($command === 'topup') {
        foreach (array_slice($words, 2) as $number) {
            yield fn () => done($client->topup($player + ['product_id' => $words[1], 'biz_no' => $number]));
        }
    } elseif ($command === 'balance') {
        yield fn () => done($client->balance($player));
    } elseif ($command === 'query' || $command === 'give-up') {
        $ask = $command === 'query' ? $client->query(...) : $client->giveUp(...);
        foreach (array_slice($words, 1) as $number) {
            yield fn () => done($ask($words[0], $number));
        }
    } elseif ($command === 'report') {
        $names = ['open_id', 'out_biz_order_no', 'order_create_time', 'order_status', 'order_path', 'product_cover_img_id'];
        $order = array_combine($names, $words) + ['out_order_no' => $words[1]];
        yield fn () => $client->report($order) ? ['outcome' => 'done'] : [];
    } elseif ($command === 'upload') {
        yield fn () => ['outcome' => 'done', 'imgId' => $client->upload(file_get_contents($words[0]))];
    } elseif ($command === 'upload-url') {
        yield fn () => ['outcome' => 'done', 'imgId' => $client->uploadByUrl($words[0])];
    } elseif ($command === 'verify') {
        [$id, $timestamp, $signature] = $words;
        $now = isset($words[3]) ? (int) $words[3] : null;
        [$body, $secrets] = [file_get_contents('php://stdin'), getenv('RECEIVER_SECRET') ?: ''];
        yield fn () => ['outcome' => 'done'] + verifyNotification($secrets, $id, $timestamp, $signature, $body, $now);
    } elseif ($command === 'verify-platform') {
        [$body, $secrets] = [file_get_contents('php://stdin'), getenv('APP_SECRET') ?: ''];
        yield fn () => taken(verifyPlatformNotification($secrets, $words[0], $body));
    } elseif ($command === 'play') {
        yield fn () => play($client, getenv('RECEIVER_SECRET') ?: '', (int) $words[0]);
    } else {
        throw new InvalidArgumentException("{$command}: no such command");
    }
}

function paid(Answer $answer): array
{
    if ($answer->code === INSUFFICIENT) {
        // Not final: an earlier try can still be on its way.
        return ['outcome' => 'insufficient', 'final' => !$answer->unsure, 'tries' => $answer->tries];
    }
    ['freeBalance' => $free, 'chargeBalance' => $charge] = $answer->body['data'];
    $line = ['outcome' => 'paid', 'replayed' => $answer->replayed, 'tries' => $answer->tries];
    return $line + ['freeBalance' => $free, 'chargeBalance' => $charge];
}

function done(Answer $answer): array
{
    return ['outcome' => 'done', 'replayed' => $answer->replayed, 'tries' => $answer->tries] + $answer->body['data'];
}

function taken(array $event): array
{
    return ['outcome' => 'done', 'answer' => json_decode(platformAnswer($event), true)] + $event;
}

function main(string ...$words): int
{
    $setting = fn (string $name, string $default = '') => getenv($name) ?: $default;
    $client = new Client(
        $setting('MINITILL_BASE', 'http://127.0.0.1:8080'), $setting('APP_ID'), $setting('APP_SECRET'), $setting('PAY_KEY'),
        (int) $setting('MINITILL_TIMEOUT_MS', '5000'), (int) $setting('MINITILL_TOTAL_MS', '60000'),
    );
    $succeeded = true;
    foreach (jobs($client, ...$words) as $job) {
        try {
            $line = $job();
        } catch (Refused $error) {
            $outcome = $error instanceof Unknown ? 'unknown' : 'refused';
            $line = ['outcome' => $outcome, 'code' => $error->getCode(), 'msg' => $error->getMessage()];
        } catch (NotGenuine $error) {
            $line = ['outcome' => 'not_genuine', 'msg' => $error->getMessage()];
        }
        echo json_encode($line), "\n";
        $succeeded = $succeeded && in_array($line['outcome'], ['paid', 'done'], true);
    }
    return $succeeded ? 0 : 1;
}

if (realpath($argv[0] ?? '') === __FILE__) {
    exit(main(...array_slice($argv, 1)));
}
