using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Net.Sockets;
using System.Security.Cryptography;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;

/// Minitill refused the call, and no try of it can have had an effect.
public class Refused : Exception
{
    public readonly int Code;

    public Refused(int code, string msg) : base(msg)
    {
        Code = code;
    }
}

/// A try can have had an effect. Repeat with the same number; never take another one.
public sealed class Unknown : Refused
{
    public Unknown(int code, string msg) : base(code, msg) { }
}

/// A notification that Minitill did not send, or not now. Answer it with 401, and do nothing more.
public sealed class NotGenuine : Exception
{
    public NotGenuine(string why) : base(why) { }
}

/// An answer; then how many tries there were, and whether one of them ended without an answer.
public sealed class Answer
{
    public int Code;
    public string Body;
    public bool Replayed;
    public TimeSpan RetryAfter;
    public int Tries;
    public bool Unsure;

    public string Field(string name)
    {
        return Client.Field(Body, name);
    }

    /// The text of all fields of data, without the braces around it.
    public string Data
    {
        get { return Regex.Replace(Body, "\\A.*?\"data\":\\s*\\{(.*)\\}\\s*\\}\\z", "$1", RegexOptions.Singleline); }
    }

    public string Msg
    {
        get { return Field("msg") ?? Field("error_msg"); }
    }
}

/// The event of a notification: its id, and the JSON that came.
public sealed class Event
{
    public string Id;
    public string Json;

    public string Field(string name)
    {
        return Client.Field(Json, name);
    }
}

/// A complete client of Minitill: the wallet, orders, uploads, notifications and a tiny game. For C# 7 or newer: .NET,
/// .NET Framework 4.7.1, Mono, Unity.
///
/// It is for any number of threads.
///
/// Try it: mcs -r:System.Net.Http Client.cs && mono Client.exe pay OPEN_ID AMOUNT BIZ_NO. README.md beside it has all
/// commands and settings.
public sealed class Client
{
    public const int Success = 1, NoToken = 100200102, RateLimited = 10000305, NoAnswer = 10000500;
    public const int Insufficient = 10000601;
    /// The number was used before: for other content, or more than 48 hours ago.
    static readonly int[] NumberUsed = { 10000602, 10000603 };
    /// A query has closed the number. It has no effect and never will, however many tries are on their way.
    const int Closed = 10000608;
    const string Used = "unknown: this number was used before; query it";
    const string Repeat = "unknown: repeat with the same number";
    const string Form = "application/x-www-form-urlencoded", Json = "application/json";
    const string Open = "/openapi/mp/developer/";
    const int WaitMaxSeconds = 8;
    /// A token is renewed so long before its end.
    static readonly TimeSpan Renew = TimeSpan.FromSeconds(60);
    /// The clocks of both sides may differ so much, and a notification may take so long.
    const long ApartMaxSeconds = 300;
    static readonly DateTime Epoch = new DateTime(1970, 1, 1, 0, 0, 0, DateTimeKind.Utc);

    readonly HttpClient http;
    readonly string baseAddress, appId, appSecret, payKey;
    readonly TimeSpan total;
    readonly SemaphoreSlim tokenTurn = new SemaphoreSlim(1);
    readonly Stopwatch clock = Stopwatch.StartNew();
    string keptToken;
    TimeSpan renewAt;

    /// timeout is for one try. No other try begins after total.
    public Client(string baseAddress, string appId, string appSecret, string payKey, TimeSpan timeout, TimeSpan total)
    {
        this.baseAddress = baseAddress.TrimEnd('/');
        this.appId = appId;
        this.appSecret = appSecret;
        this.payKey = payKey;
        this.total = total;
        http = new HttpClient(new HttpClientHandler { AllowAutoRedirect = false, MaxConnectionsPerServer = 256 });
        http.Timeout = timeout;
        http.DefaultRequestHeaders.ExpectContinue = false;
        // On a connection that is used again, .NET Framework and Mono may repeat a POST by themselves.
        http.DefaultRequestHeaders.ConnectionClose = true;
    }

    /// Exchanges coins for an order: the fields of docs/api.md but app_id, ts, access_token and sign.
    ///
    /// The code of the answer is Success or Insufficient. sentBefore: this order may have been sent before, such as
    /// before a restart. Throws Refused or Unknown.
    public Task<Answer> Pay(IDictionary<string, string> order, bool sentBefore = false)
    {
        return Wallet("pay", order, sentBefore, true);
    }

    /// Gives gifted coins. Fields, sentBefore and errors are as in Pay.
    public Task<Answer> Present(IDictionary<string, string> present, bool sentBefore = false)
    {
        return Wallet("present", present, sentBefore, true);
    }

    /// Gives back an exchange, or a part of it. Fields, sentBefore and errors are as in Pay.
    public Task<Answer> Cancel(IDictionary<string, string> cancel, bool sentBefore = false)
    {
        return Wallet("cancel", cancel, sentBefore, true);
    }

    /// Orders a product of the prices, before the player pays money for it. Fields, sentBefore and errors are as in Pay.
    public Task<Answer> Topup(IDictionary<string, string> order, bool sentBefore = false)
    {
        return Wallet("topup", order, sentBefore, true);
    }

    /// Shows both purses. Fields and errors are as in Pay.
    public Task<Answer> Balance(IDictionary<string, string> player)
    {
        return Wallet("balance", player, false, false);
    }

    /// Tells what became of a number. close: an unknown one is closed for ever. Throws Refused or Unknown.
    public Task<Answer> Query(string openId, string bizNo, bool close = false)
    {
        var fields = new Dictionary<string, string> {
            ["open_id"] = openId, ["biz_no"] = bizNo, ["close"] = close ? "1" : "0",
        };
        return Wallet("query", fields, false, close);
    }

    /// Gives up a number that got no answer. With any status but "closed" it had its effect before.
    public Task<Answer> GiveUp(string openId, string bizNo)
    {
        return Query(openId, bizNo, true);
    }

    /// Reports an order, which is a JSON object. Throws Refused or Unknown.
    public Task<Answer> Report(string order)
    {
        return OfDeveloper(Open + "order/v1/report", Json, Encoding.UTF8.GetBytes(order));
    }

    /// Uploads the bytes of a PNG or JPEG and gives the imgId. Throws Refused or Unknown.
    public async Task<string> Upload(byte[] picture)
    {
        string mark = Guid.NewGuid().ToString("N");
        string head = "--" + mark + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"cover.png\"\r\n\r\n";
        byte[] start = Encoding.ASCII.GetBytes(head), end = Encoding.ASCII.GetBytes("\r\n--" + mark + "--\r\n");
        byte[] body = start.Concat(picture).Concat(end).ToArray();
        string kind = "multipart/form-data; boundary=" + mark;
        return (await OfDeveloper(Open + "file/img/uploadWithFile", kind, body).ConfigureAwait(false)).Field("imgId");
    }

    /// Lets Minitill fetch a picture and gives the imgId. Throws Refused or Unknown.
    public async Task<string> UploadByUrl(string url)
    {
        byte[] body = Encoding.UTF8.GetBytes(Encoded(new Dictionary<string, string> { ["url"] = url }));
        return (await OfDeveloper(Open + "file/img/uploadWithUrl", Form, body).ConfigureAwait(false)).Field("imgId");
    }

    /// Tells the sandbox that a game under test has shipped. Throws Refused or Unknown.
    public Task<Answer> NoteShipment(string bizNo)
    {
        return OfDeveloper("/sandbox/v1/shipments", Json, Encoding.UTF8.GetBytes("{\"biz_no\":\"" + bizNo + "\"}"));
    }

    Task<Answer> Wallet(string call, IDictionary<string, string> own, bool sentBefore, bool changes)
    {
        return Call(sentBefore, changes, token => {
            var fields = new Dictionary<string, string>(own) {
                ["app_id"] = appId, ["access_token"] = token,
                ["ts"] = ((long)(DateTime.UtcNow - Epoch).TotalMilliseconds).ToString(),
            };
            return Send("/api/kpay/minigame/" + call, Form, Encoding.UTF8.GetBytes(SignedBody(fields, payKey)));
        });
    }

    Task<Answer> OfDeveloper(string path, string kind, byte[] body)
    {
        return Call(false, true, token => {
            var query = Encoded(new Dictionary<string, string> { ["app_id"] = appId, ["access_token"] = token });
            return Send(path + "?" + query, kind, body);
        });
    }

    /// Repeats a call until an answer decides. Each try makes its request anew, with a fresh token and ts.
    ///
    /// changes: a try can have an effect, so a refusal does not tell what became of the tries before it.
    async Task<Answer> Call(bool unsure, bool changes, Func<string, Task<Answer>> send)
    {
        TimeSpan until = clock.Elapsed + total, wait = TimeSpan.FromSeconds(1);
        bool renewed = false;
        for (int tries = 0; ;)
        {
            KeyValuePair<string, Answer> kept = await AccessToken().ConfigureAwait(false);
            string token = kept.Key;
            tries += token != null ? 1 : 0;
            Answer answer = token != null ? await send(token).ConfigureAwait(false) : kept.Value;
            int code = answer.Code;
            if (code == Success || code == Insufficient)
            {
                answer.Tries = tries;
                answer.Unsure = unsure;
                return answer;
            }
            if (code == NoToken && token != null && !renewed)
            {
                Interlocked.CompareExchange(ref keptToken, null, token);
                renewed = true;
                continue;
            }
            unsure |= code == NoAnswer && token != null;
            if (NumberUsed.Contains(code))
            {
                throw new Unknown(code, Used);
            }
            if (code != NoAnswer && code != RateLimited)
            {
                bool perhaps = unsure && changes && code != Closed;
                throw perhaps ? new Unknown(code, answer.Msg) : new Refused(code, answer.Msg);
            }
            TimeSpan pause = answer.RetryAfter > TimeSpan.Zero ? answer.RetryAfter : wait;
            if (clock.Elapsed + pause > until)
            {
                throw unsure ? new Unknown(code, Repeat) : new Refused(code, answer.Msg);
            }
            await Task.Delay(pause).ConfigureAwait(false);
            wait = TimeSpan.FromSeconds(Math.Min(2 * wait.TotalSeconds, WaitMaxSeconds));
        }
    }

    /// The token that is kept, or a new one; or no token and the answer that explains why there is none.
    async Task<KeyValuePair<string, Answer>> AccessToken()
    {
        await tokenTurn.WaitAsync().ConfigureAwait(false);
        try
        {
            string token = keptToken;
            if (token != null && clock.Elapsed < renewAt)
            {
                return new KeyValuePair<string, Answer>(token, null);
            }
            var fields = new Dictionary<string, string> {
                ["app_id"] = appId, ["app_secret"] = appSecret, ["grant_type"] = "client_credentials",
            };
            byte[] body = Encoding.UTF8.GetBytes(Encoded(fields));
            Answer answer = await Send("/oauth2/access_token", Form, body).ConfigureAwait(false);
            keptToken = answer.Code == Success ? answer.Field("access_token") : null;
            if (keptToken != null)
            {
                renewAt = clock.Elapsed + TimeSpan.FromSeconds(long.Parse(answer.Field("expires_in"))) - Renew;
            }
            return new KeyValuePair<string, Answer>(keptToken, answer);
        }
        finally
        {
            tokenTurn.Release();
        }
    }

    /// One request. What is no answer of Minitill gets the code NoAnswer, as its own system error has.
    async Task<Answer> Send(string path, string kind, byte[] body)
    {
        TimeSpan retryAfter = TimeSpan.Zero;
        try
        {
            var content = new ByteArrayContent(body);
            content.Headers.ContentType = MediaTypeHeaderValue.Parse(kind);
            using (HttpResponseMessage response = await http.PostAsync(baseAddress + path, content).ConfigureAwait(false))
            {
                RetryConditionHeaderValue after = response.Headers.RetryAfter;
                retryAfter = after != null && after.Delta.HasValue ? after.Delta.Value : TimeSpan.Zero;
                IEnumerable<string> replayed;
                bool isReplayed = response.Headers.TryGetValues("Idempotent-Replayed", out replayed) && replayed.Contains("true");
                byte[] read = await response.Content.ReadAsByteArrayAsync().ConfigureAwait(false);
                // .NET Framework and Mono do not tell an answer that is cut.
                bool isWhole = read.Length >= (response.Content.Headers.ContentLength ?? 0);
                string text = Encoding.UTF8.GetString(read).Trim(), code = Field(text, "code") ?? Field(text, "result");
                if ((int)response.StatusCode >= 500 || code == null || !isWhole || text[0] != '{' || !text.EndsWith("}"))
                {
                    return None("HTTP status " + (int)response.StatusCode, retryAfter);
                }
                return new Answer { Code = int.Parse(code), Body = text, Replayed = isReplayed, RetryAfter = retryAfter };
            }
        }
        catch (OperationCanceledException)
        {
            return None("it took too long", retryAfter);
        }
        catch (Exception error) when (error is HttpRequestException || error is IOException || error is WebException
            || error is FormatException || error is OverflowException)
        {
            return None("the connection or the answer broke", retryAfter);
        }
    }

    static Answer None(string why, TimeSpan retryAfter)
    {
        return new Answer { Code = NoAnswer, Body = "{\"msg\":\"no answer: " + why + "\"}", RetryAfter = retryAfter };
    }

    static readonly string[] NotSigned = { "access_token", "sign" };

    /// Signs the values as they are, sorted by name, without empty ones; only the body is encoded.
    public static string SignedBody(IDictionary<string, string> fields, string payKey)
    {
        var signed = fields.Where(field => field.Value != "" && !NotSigned.Contains(field.Key))
            .OrderBy(field => field.Key, StringComparer.Ordinal).Select(field => field.Key + "=" + field.Value);
        string sign;
        using (var mac = new HMACSHA256(Encoding.UTF8.GetBytes(payKey)))
        {
            byte[] hash = mac.ComputeHash(Encoding.UTF8.GetBytes(string.Join("&", signed)));
            sign = string.Concat(hash.Select(part => part.ToString("x2")));
        }
        var body = new Dictionary<string, string>(fields) { ["sign"] = sign };
        return string.Join("&", body.Select(field => field.Key + "=" + Uri.EscapeDataString(field.Value)));
    }

    static string Encoded(IDictionary<string, string> fields)
    {
        return string.Join("&", fields.Select(field => field.Key + "=" + Uri.EscapeDataString(field.Value)));
    }

    /// A text or a number of a JSON object, by its name. With a JSON library of yours you do without this.
    public static string Field(string json, string name)
    {
        string text = "\"([^\"\\\\]*(?:\\\\.[^\"\\\\]*)*)\"";
        Match found = Regex.Match(json, "\"" + name + "\":\\s*(?:" + text + "|(-?\\d+))", RegexOptions.Singleline);
        return !found.Success ? null : found.Groups[1].Success ? found.Groups[1].Value : found.Groups[2].Value;
    }

    /// Gives the event of a notification in the standard format, with its id. Throws NotGenuine.
    ///
    /// secrets: the receiver's whsec_..., or several with a space between. Then the values of the three headers, null
    /// for one that is missing. body: the bytes as they came; JSON that was parsed and written again does not verify.
    /// now: Unix seconds. Store the event by its id before you answer: it can come twice.
    public static Event VerifyNotification(string secrets, string webhookId, string webhookTimestamp,
        string webhookSignature, byte[] body, long now)
    {
        if (!Regex.IsMatch(webhookTimestamp ?? "", "\\A[0-9]{1,12}\\z"))
        {
            throw new NotGenuine("webhook-timestamp: expected Unix seconds");
        }
        if (Math.Abs(now - long.Parse(webhookTimestamp)) > ApartMaxSeconds)
        {
            throw new NotGenuine("webhook-timestamp: expected a time within 5 minutes of now");
        }
        byte[] signed = Encoding.UTF8.GetBytes(webhookId + "." + webhookTimestamp + ".").Concat(body).ToArray();
        bool fits = false;
        foreach (string secret in secrets.Split(' '))
        {
            using (var mac = new HMACSHA256(KeyOf(secret)))
            {
                // The version v1 stands in what is compared, so signatures of other versions never fit.
                string expected = "v1," + Convert.ToBase64String(mac.ComputeHash(signed));
                foreach (string given in (webhookSignature ?? "").Split(' '))
                {
                    fits |= AreEqual(expected, given);
                }
            }
        }
        if (!fits)
        {
            throw new NotGenuine("webhook-signature: no signature fits");
        }
        return new Event { Id = webhookId, Json = Encoding.UTF8.GetString(body) };
    }

    /// The key in a secret. An empty key, with which anybody could sign, is an ArgumentException.
    public static byte[] KeyOf(string secret)
    {
        byte[] key = secret.StartsWith("whsec_") ? Convert.FromBase64String(secret.Substring(6)) : new byte[0];
        if (key.Length == 0)
        {
            throw new ArgumentException("expected a secret of a receiver: whsec_ and base64");
        }
        return key;
    }

    /// Takes as long wherever the texts differ.
    static bool AreEqual(string one, string other)
    {
        int different = one.Length ^ other.Length;
        for (int at = 0; at < Math.Min(one.Length, other.Length); at++)
        {
            different |= one[at] ^ other[at];
        }
        return different == 0;
    }

    /// Gives the event of a notification in the platform's format, with its id. Throws NotGenuine.
    ///
    /// appSecrets: the app secret, or several with a space between; while it changes, the new one and the former one.
    /// kwaisign: the header, or null. body: the bytes as they came. This format holds no time of the try, so only the id
    /// tells a repeat: keep the ids. Take the event by answering 200 with PlatformAnswer(event).
    public static Event VerifyPlatformNotification(string appSecrets, string kwaisign, byte[] body)
    {
        bool fits = false;
        foreach (string secret in appSecrets.Split(' '))
        {
            if (secret == "")
            {
                throw new ArgumentException("expected an app secret");
            }
            using (var md5 = MD5.Create())
            {
                byte[] hash = md5.ComputeHash(body.Concat(Encoding.UTF8.GetBytes(secret)).ToArray());
                fits |= AreEqual(string.Concat(hash.Select(part => part.ToString("x2"))), kwaisign ?? "");
            }
        }
        if (!fits)
        {
            throw new NotGenuine("kwaisign: expected the MD5 of body and app secret");
        }
        string json = Encoding.UTF8.GetString(body);
        return new Event { Id = Field(json, "message_id"), Json = json };
    }

    /// The body of the answer that takes an event of the platform's format. Minitill sends it again after any other.
    public static string PlatformAnswer(Event taken)
    {
        return "{\"result\":1,\"message_id\":\"" + taken.Id + "\"}";
    }

    public static long UnixSeconds()
    {
        return (long)(DateTime.UtcNow - Epoch).TotalSeconds;
    }
}

/// A tiny game: it buys an item for each credit, and ships what was paid.
///
/// A real game keeps in its database what this one keeps in memory: an event before it is answered, and a number in the
/// transaction that gives the item to the player.
public sealed class Game
{
    /// How much the game does at once, and when it tries again what could not be settled.
    const int Workers = 32, AgainSeconds = 30;

    readonly Client client;
    readonly ConcurrentDictionary<string, bool> seen = new ConcurrentDictionary<string, bool>();
    readonly ConcurrentDictionary<string, bool> shipped = new ConcurrentDictionary<string, bool>();
    readonly SemaphoreSlim places = new SemaphoreSlim(Workers);

    public Game(Client client)
    {
        this.client = client;
    }

    /// Takes an event once. The work comes later, so that the answer need not wait for it.
    public void Take(Event taken)
    {
        string type = taken.Field("type");
        bool isKnown = type == "wallet.credited" || type == "exchange.succeeded";
        if (isKnown && !taken.Json.Contains("\"is_mock\":true") && seen.TryAdd(taken.Id, true))
        {
            Task.Run(() => Work(taken));
        }
    }

    async Task Work(Event taken)
    {
        await places.WaitAsync();
        try
        {
            if (taken.Field("type") == "wallet.credited")
            {
                await Buy(taken);
            }
            else
            {
                await Ship(taken.Field("biz_no"));
            }
        }
        catch (Exception error)
        {
            // Nobody knows yet what became of it. To do all of it again is safe: its number is the same.
            Console.Error.WriteLine(taken.Id + ": " + error);
            _ = Task.Delay(TimeSpan.FromSeconds(AgainSeconds)).ContinueWith(ended => Work(taken));
        }
        finally
        {
            places.Release();
        }
    }

    /// The number comes from the event, so an event that comes again after a restart buys nothing more.
    async Task Buy(Event taken)
    {
        string openId = taken.Field("open_id"), bizNo = taken.Id.Replace("_", "");
        bool isPaid = false;
        try
        {
            isPaid = (await client.Pay(Program.OrderOf(openId, "1", bizNo), true)).Code == Client.Success;
        }
        catch (Refused)
        {
            // As after too few coins.
        }
        // Without success a try can still be on its way. To give the number up tells, and makes sure.
        if (isPaid || (await client.GiveUp(openId, bizNo)).Field("status") == "paid")
        {
            await Ship(bizNo);
        }
    }

    async Task Ship(string bizNo)
    {
        // The number is kept first: to ship twice is worse than to tell of it late.
        if (shipped.TryAdd(bizNo, true))
        {
            Program.Print("{\"outcome\":\"shipped\",\"biz_no\":\"" + bizNo + "\"}");
            await client.NoteShipment(bizNo);
        }
    }

    /// Serves a game at this port of 127.0.0.1, or at a free one for 0, until the program ends.
    public static async Task Play(Client client, string secrets, int port)
    {
        foreach (string secret in secrets.Split(' '))
        {
            Client.KeyOf(secret);
        }
        if (port == 0)
        {
            var free = new TcpListener(IPAddress.Loopback, 0);
            free.Start();
            port = ((IPEndPoint)free.LocalEndpoint).Port;
            free.Stop();
        }
        var game = new Game(client);
        var server = new HttpListener();
        server.Prefixes.Add("http://127.0.0.1:" + port + "/");
        server.Start();
        Program.Print("{\"outcome\":\"playing\",\"port\":" + port + "}");
        while (true)
        {
            HttpListenerContext context = await server.GetContextAsync();
            _ = Task.Run(() => Answer(game, secrets, context));
        }
    }

    static void Answer(Game game, string secrets, HttpListenerContext context)
    {
        try
        {
            var body = new MemoryStream();
            context.Request.InputStream.CopyTo(body);
            var headers = context.Request.Headers;
            try
            {
                game.Take(Client.VerifyNotification(secrets, headers["webhook-id"], headers["webhook-timestamp"],
                    headers["webhook-signature"], body.ToArray(), Client.UnixSeconds()));
                context.Response.StatusCode = 204;
            }
            catch (NotGenuine)
            {
                context.Response.StatusCode = 401;
            }
            context.Response.Close();
        }
        catch (Exception error)
        {
            // It comes again.
            Console.Error.WriteLine(error);
            context.Response.Abort();
        }
    }
}

/// The commands of README.md.
public static class Program
{
    static Dictionary<string, string> PlayerOf(string openId)
    {
        return new Dictionary<string, string> {
            ["open_id"] = openId, ["zone_id"] = "zone1_role1", ["os"] = "android", ["user_ip"] = "203.0.113.7",
        };
    }

    public static Dictionary<string, string> OrderOf(string openId, string amount, string bizNo)
    {
        return new Dictionary<string, string>(PlayerOf(openId)) {
            ["amount"] = amount, ["biz_no"] = bizNo, ["product_name"] = "Double-up card",
            ["product_desc"] = "For one match",
            ["product_info"] = "[{\"product_id\":1001,\"product_num\":1,\"product_type\":0}]",
        };
    }

    /// What a command does; prints a line for each call. Gives whether all succeeded.
    static async Task<bool> Run(Client client, string command, string[] words)
    {
        Dictionary<string, string> player = PlayerOf(words[0]);
        switch (command)
        {
            case "pay":
            case "pay-again":
                return await Each(words.Skip(2), async number =>
                    Paid(await client.Pay(OrderOf(words[0], words[1], number), command == "pay-again")));
            case "present":
                return await Each(words.Skip(2), async number => Done(await client.Present(
                    new Dictionary<string, string>(player) { ["amount"] = words[1], ["biz_no"] = number })));
            case "cancel":
                return await Each(words.Skip(3), async number => Done(await client.Cancel(
                    new Dictionary<string, string>(player) {
                        ["amount"] = words[1], ["pay_biz_no"] = words[2], ["biz_no"] = number,
                    })));
            case "topup":
                return await Each(words.Skip(2), async number => Done(await client.Topup(
                    new Dictionary<string, string>(player) { ["product_id"] = words[1], ["biz_no"] = number })));
            case "balance":
                return await Once(async () => Done(await client.Balance(player)));
            case "query":
                return await Each(words.Skip(1), async number => Done(await client.Query(words[0], number)));
            case "give-up":
                return await Each(words.Skip(1), async number => Done(await client.GiveUp(words[0], number)));
            case "report":
                string order = "{\"open_id\":\"" + words[0] + "\",\"out_biz_order_no\":\"" + words[1]
                    + "\",\"out_order_no\":\"" + words[1] + "\",\"order_create_time\":" + words[2]
                    + ",\"order_status\":" + words[3] + ",\"order_path\":\"" + words[4]
                    + "\",\"product_cover_img_id\":\"" + words[5] + "\"}";
                return await Once(async () => await client.Report(order) != null ? "\"done\"" : "");
            case "upload":
                byte[] picture = File.ReadAllBytes(words[0]);
                return await Once(async () => "\"done\",\"imgId\":\"" + await client.Upload(picture) + "\"");
            case "upload-url":
                return await Once(async () => "\"done\",\"imgId\":\"" + await client.UploadByUrl(words[0]) + "\"");
            case "verify":
                byte[] sent = Input();
                long now = words.Length > 3 ? long.Parse(words[3]) : Client.UnixSeconds();
                return await Once(() => Task.FromResult(Shown(Client.VerifyNotification(
                    Setting("RECEIVER_SECRET", ""), words[0], words[1], words[2], sent, now), "")));
            case "verify-platform":
                byte[] body = Input();
                return await Once(() => {
                    Event taken = Client.VerifyPlatformNotification(Setting("APP_SECRET", ""), words[0], body);
                    return Task.FromResult(Shown(taken, "\"answer\":" + Client.PlatformAnswer(taken) + ","));
                });
            case "play":
                await Game.Play(client, Setting("RECEIVER_SECRET", ""), int.Parse(words[0]));
                return true;
            default:
                throw new ArgumentException(command + ": no such command");
        }
    }

    static string Paid(Answer answer)
    {
        string tries = "\"tries\":" + answer.Tries;
        if (answer.Code == Client.Insufficient)
        {
            // Not final: an earlier try can still be on its way.
            return "\"insufficient\",\"final\":" + Word(!answer.Unsure) + "," + tries;
        }
        return "\"paid\",\"replayed\":" + Word(answer.Replayed) + "," + tries + ",\"freeBalance\":"
            + answer.Field("freeBalance") + ",\"chargeBalance\":" + answer.Field("chargeBalance");
    }

    static string Done(Answer answer)
    {
        return "\"done\",\"replayed\":" + Word(answer.Replayed) + ",\"tries\":" + answer.Tries + "," + answer.Data;
    }

    /// The id, these fields more, and the fields of the event without the braces around them.
    static string Shown(Event taken, string more)
    {
        int start = taken.Json.IndexOf('{') + 1;
        string fields = taken.Json.Substring(start, taken.Json.LastIndexOf('}') - start);
        return "\"done\",\"id\":\"" + taken.Id + "\"," + more + fields;
    }

    static string Word(bool value)
    {
        return value ? "true" : "false";
    }

    static async Task<bool> Each(IEnumerable<string> numbers, Func<string, Task<string>> job)
    {
        bool succeeded = true;
        foreach (string number in numbers)
        {
            succeeded &= await Once(() => job(number));
        }
        return succeeded;
    }

    static async Task<bool> Once(Func<Task<string>> job)
    {
        string line;
        try
        {
            line = await job();
        }
        catch (Refused error)
        {
            string outcome = error is Unknown ? "unknown" : "refused";
            // The text is still escaped as JSON.
            line = "\"" + outcome + "\",\"code\":" + error.Code + ",\"msg\":\"" + error.Message + "\"";
        }
        catch (NotGenuine error)
        {
            line = "\"not_genuine\",\"msg\":\"" + error.Message + "\"";
        }
        Print("{\"outcome\":" + line + "}");
        return line.StartsWith("\"paid\"") || line.StartsWith("\"done\"");
    }

    static readonly Stream Output = Console.OpenStandardOutput();

    /// Prints a line in UTF-8, whatever the locale is.
    public static void Print(string line)
    {
        byte[] bytes = Encoding.UTF8.GetBytes(line + "\n");
        lock (Output)
        {
            Output.Write(bytes, 0, bytes.Length);
            Output.Flush();
        }
    }

    static byte[] Input()
    {
        var input = new MemoryStream();
        Console.OpenStandardInput().CopyTo(input);
        return input.ToArray();
    }

    static string Setting(string name, string otherwise)
    {
        return Environment.GetEnvironmentVariable(name) ?? otherwise;
    }

    public static int Main(string[] arguments)
    {
        TimeSpan timeout = TimeSpan.FromMilliseconds(double.Parse(Setting("MINITILL_TIMEOUT_MS", "5000")));
        TimeSpan total = TimeSpan.FromMilliseconds(double.Parse(Setting("MINITILL_TOTAL_MS", "60000")));
        var client = new Client(Setting("MINITILL_BASE", "http://127.0.0.1:8080"), Setting("APP_ID", ""),
            Setting("APP_SECRET", ""), Setting("PAY_KEY", ""), timeout, total);
        return Run(client, arguments[0], arguments.Skip(1).ToArray()).GetAwaiter().GetResult() ? 0 : 1;
    }
}
