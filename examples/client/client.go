// A complete client of Minitill: the wallet, orders, uploads, notifications and a tiny game (Go 1.19 or newer).
//
// Try it: go run client.go pay OPEN_ID AMOUNT BIZ_NO. README.md beside it has all commands and settings.
package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	success, noToken, rateLimited, noAnswer, insufficient = 1, 100200102, 10000305, 10000500, 10000601
	// The number was used before: for other content, or more than 48 hours ago.
	usedForOther, usedLongAgo = 10000602, 10000603
	// A query has closed the number. It has no effect and never will, however many tries are on their way.
	closed  = 10000608
	used    = "unknown: this number was used before; query it"
	unknown = "unknown: repeat with the same number"
	form    = "application/x-www-form-urlencoded"
	waitMax = 8 * time.Second
	// A token is renewed so long before its end.
	renewBefore = 60 * time.Second
	// The clocks of both sides may differ so much, and a notification may take so long.
	apartMax = 300
	// How much the game does at once, and when it tries again what could not be settled.
	workers, again = 32, 30 * time.Second
	developer      = "/openapi/mp/developer/"
)

// Refused: Minitill refused the call. Where Unknown is false, no try of it can have had an effect.
// Where it is true, one can have had. Repeat with the same number then; never take another one.
type Refused struct {
	Code    int
	Msg     string
	Unknown bool
}

func (refused *Refused) Error() string { return refused.Msg }

// Answer of Minitill. Of Code and Result, and of Msg and ErrorMsg, a call has one. A number in Data is a json.Number.
type Answer struct {
	Code, Result *int
	Msg          string
	ErrorMsg     string `json:"error_msg"`
	AccessToken  string `json:"access_token"`
	ExpiresIn    int64  `json:"expires_in"`
	Data         map[string]any
	// Not in the body: the two headers, how many tries there were, and whether one had no answer.
	Replayed   bool          `json:"-"`
	RetryAfter time.Duration `json:"-"`
	Tries      int           `json:"-"`
	Unsure     bool          `json:"-"`
}

// Client of one app, for any number of goroutines.
type Client struct {
	Base, AppID, AppSecret, PayKey string
	// No other try begins after Total.
	Total time.Duration
	// Its Timeout is that of one try.
	HTTP    http.Client
	mutex   sync.Mutex
	token   string
	renewAt time.Time
}

// Pay exchanges coins for an order: the fields of docs/api.md but app_id, ts, access_token and sign.
//
// The code of the answer is success or insufficient. sentBefore: this order may have been sent
// before, such as before a restart. Other errors are *Refused.
func (client *Client) Pay(order url.Values, sentBefore bool) (*Answer, error) {
	return client.wallet("pay", order, sentBefore, true)
}

// Present gives gifted coins. Fields, sentBefore and errors are as in Pay.
func (client *Client) Present(present url.Values, sentBefore bool) (*Answer, error) {
	return client.wallet("present", present, sentBefore, true)
}

// Cancel gives back an exchange, or a part of it. Fields, sentBefore and errors are as in Pay.
func (client *Client) Cancel(cancel url.Values, sentBefore bool) (*Answer, error) {
	return client.wallet("cancel", cancel, sentBefore, true)
}

// Topup orders a product of the prices, before the player pays money for it. Fields, sentBefore and errors are as in Pay.
func (client *Client) Topup(order url.Values, sentBefore bool) (*Answer, error) {
	return client.wallet("topup", order, sentBefore, true)
}

// Balance shows both purses. Fields and errors are as in Pay.
func (client *Client) Balance(player url.Values) (*Answer, error) {
	return client.wallet("balance", player, false, false)
}

// Query tells what became of a number. toClose: an unknown one is closed for ever. Errors are as in Pay.
func (client *Client) Query(openID, bizNo string, toClose bool) (*Answer, error) {
	fields := url.Values{"open_id": {openID}, "biz_no": {bizNo}, "close": {"0"}}
	if toClose {
		fields.Set("close", "1")
	}
	return client.wallet("query", fields, false, toClose)
}

// GiveUp gives up a number that got no answer. With any status but "closed" it had its effect before.
func (client *Client) GiveUp(openID, bizNo string) (*Answer, error) {
	return client.Query(openID, bizNo, true)
}

// Report reports an order.
func (client *Client) Report(order map[string]string) error {
	body, err := json.Marshal(order)
	if err != nil {
		return err
	}
	_, err = client.open(developer+"order/v1/report", "application/json", body)
	return err
}

// Upload uploads the bytes of a PNG or JPEG and gives the imgId.
func (client *Client) Upload(picture []byte) (string, error) {
	var body bytes.Buffer
	writer := multipart.NewWriter(&body)
	part, err := writer.CreateFormFile("file", "cover.png")
	if err != nil {
		return "", err
	}
	part.Write(picture)
	writer.Close()
	answer, err := client.open(developer+"file/img/uploadWithFile", writer.FormDataContentType(), body.Bytes())
	id, _ := answer.Data["imgId"].(string)
	return id, err
}

// UploadByURL lets Minitill fetch a picture and gives the imgId.
func (client *Client) UploadByURL(address string) (string, error) {
	body := url.Values{"url": {address}}.Encode()
	answer, err := client.open(developer+"file/img/uploadWithUrl", form, []byte(body))
	id, _ := answer.Data["imgId"].(string)
	return id, err
}

// NoteShipment tells the sandbox that a game under test has shipped.
func (client *Client) NoteShipment(bizNo string) error {
	body, err := json.Marshal(map[string]string{"biz_no": bizNo})
	if err != nil {
		return err
	}
	_, err = client.open("/sandbox/v1/shipments", "application/json", body)
	return err
}

func (client *Client) wallet(call string, own url.Values, sentBefore, changes bool) (*Answer, error) {
	return client.call(sentBefore, changes, func(token string) *Answer {
		fields := url.Values{}
		for name := range own {
			fields.Set(name, own.Get(name))
		}
		fields.Set("app_id", client.AppID)
		fields.Set("access_token", token)
		fields.Set("ts", strconv.FormatInt(time.Now().UnixMilli(), 10))
		return client.send("/api/kpay/minigame/"+call, form, []byte(SignedBody(fields, client.PayKey)))
	})
}

func (client *Client) open(path, kind string, body []byte) (*Answer, error) {
	return client.call(false, true, func(token string) *Answer {
		query := url.Values{"app_id": {client.AppID}, "access_token": {token}}
		return client.send(path+"?"+query.Encode(), kind, body)
	})
}

// call repeats a call until an answer decides. Each try makes its request anew, with a fresh token and ts.
// changes: a try can have an effect, so a refusal does not tell what became of the tries before it.
func (client *Client) call(unsure, changes bool, send func(token string) *Answer) (*Answer, error) {
	until, wait, renewed, tries := time.Now().Add(client.Total), time.Second, false, 0
	for {
		token, answer := client.accessToken()
		if token != "" {
			tries++
			answer = send(token)
		}
		answer.Tries, answer.Unsure = tries, unsure
		switch *answer.Code {
		case success, insufficient:
			return answer, nil
		case usedForOther, usedLongAgo:
			return answer, &Refused{*answer.Code, used, true}
		case noAnswer:
			unsure = unsure || token != ""
		case rateLimited:
		default:
			if *answer.Code != noToken || token == "" || renewed {
				return answer, &Refused{*answer.Code, answer.Msg, unsure && changes && *answer.Code != closed}
			}
			client.forget(token)
			renewed = true
			continue
		}
		pause := answer.RetryAfter
		if pause == 0 {
			pause = wait
		}
		if time.Now().Add(pause).After(until) {
			if unsure {
				return answer, &Refused{*answer.Code, unknown, true}
			}
			return answer, &Refused{*answer.Code, answer.Msg, false}
		}
		time.Sleep(pause)
		if wait *= 2; wait > waitMax {
			wait = waitMax
		}
	}
}

// accessToken gives the token that is kept, or a new one; or none and the answer that explains why.
func (client *Client) accessToken() (string, *Answer) {
	client.mutex.Lock()
	defer client.mutex.Unlock()
	if client.token != "" && time.Now().Before(client.renewAt) {
		return client.token, nil
	}
	fields := url.Values{"app_id": {client.AppID}, "app_secret": {client.AppSecret}}
	fields.Set("grant_type", "client_credentials")
	answer := client.send("/oauth2/access_token", form, []byte(fields.Encode()))
	if *answer.Code != success {
		return "", answer
	}
	client.token = answer.AccessToken
	client.renewAt = time.Now().Add(time.Duration(answer.ExpiresIn)*time.Second - renewBefore)
	return client.token, nil
}

func (client *Client) forget(token string) {
	client.mutex.Lock()
	defer client.mutex.Unlock()
	// Another goroutine may have renewed it already.
	if client.token == token {
		client.token = ""
	}
}

// send makes one request. What is no answer of Minitill gets the code noAnswer, as its own system error has.
func (client *Client) send(path, kind string, body []byte) *Answer {
	failed := func(why string, retryAfter time.Duration) *Answer {
		code := noAnswer
		return &Answer{Code: &code, Msg: "no answer: " + why, RetryAfter: retryAfter}
	}
	response, err := client.HTTP.Post(strings.TrimSuffix(client.Base, "/")+path, kind, bytes.NewReader(body))
	if err != nil {
		// The error also holds the address with its query, and so the token.
		return failed(errors.Unwrap(err).Error(), 0)
	}
	defer response.Body.Close()
	seconds, _ := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 31)
	answer := &Answer{RetryAfter: time.Duration(seconds) * time.Second}
	decoder := json.NewDecoder(response.Body)
	decoder.UseNumber()
	if err := decoder.Decode(answer); err != nil {
		return failed(err.Error(), answer.RetryAfter)
	}
	if answer.Code == nil {
		answer.Code, answer.Msg = answer.Result, answer.ErrorMsg
	}
	if response.StatusCode >= 500 || answer.Code == nil {
		return failed(response.Status, answer.RetryAfter)
	}
	answer.Replayed = response.Header.Get("Idempotent-Replayed") == "true"
	return answer
}

// SignedBody signs the values as they are, sorted by name, without empty ones; only the body is encoded.
func SignedBody(fields url.Values, payKey string) string {
	var text []string
	for name := range fields {
		if value := fields.Get(name); value != "" && name != "access_token" && name != "sign" {
			text = append(text, name+"="+value)
		}
	}
	sort.Slice(text, func(one, other int) bool {
		return strings.SplitN(text[one], "=", 2)[0] < strings.SplitN(text[other], "=", 2)[0]
	})
	mac := hmac.New(sha256.New, []byte(payKey))
	mac.Write([]byte(strings.Join(text, "&")))
	fields.Set("sign", hex.EncodeToString(mac.Sum(nil)))
	return fields.Encode()
}

// NotGenuine: Minitill did not send this notification, or not now. Answer it with 401, and do nothing more.
type NotGenuine string

func (why NotGenuine) Error() string { return string(why) }

// Event of a notification, with its id. A number in it is a json.Number.
type Event map[string]any

// VerifyNotification gives the event of a notification in the standard format, or the error NotGenuine.
//
// secrets: the receiver's whsec_..., or several with a space between. Then the values of the three headers, empty
// for one that is missing. body: the bytes as they came; JSON that was parsed and written again does not verify.
// now: time.Now(), but for tests. Store the event by its id before you answer: it can come twice.
func VerifyNotification(secrets, id, timestamp, signature string, body []byte, now time.Time) (Event, error) {
	// Of so few bits no difference overflows.
	sentAt, err := strconv.ParseUint(timestamp, 10, 40)
	if err != nil {
		return nil, NotGenuine("webhook-timestamp: expected Unix seconds")
	}
	if apart := now.Unix() - int64(sentAt); apart > apartMax || apart < -apartMax {
		return nil, NotGenuine("webhook-timestamp: expected a time within 5 minutes of now")
	}
	fits := false
	for _, secret := range strings.Split(secrets, " ") {
		key, err := keyOf(secret)
		if err != nil {
			return nil, err
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		// The version v1 stands in what is compared, so signatures of other versions never fit.
		expected := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		for _, given := range strings.Split(signature, " ") {
			fits = hmac.Equal([]byte(expected), []byte(given)) || fits
		}
	}
	if !fits {
		return nil, NotGenuine("webhook-signature: no signature fits")
	}
	event, err := parsed(body)
	if err == nil {
		event["id"] = id
	}
	return event, err
}

// keyOf gives the key in a secret. A setting that is missing must not become an empty key: anybody could sign with it.
func keyOf(secret string) ([]byte, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil || len(key) == 0 || !strings.HasPrefix(secret, "whsec_") {
		return nil, errors.New("expected a secret of a receiver: whsec_ and base64")
	}
	return key, nil
}

// VerifyPlatformNotification gives the event of a notification in the platform's format, or the error NotGenuine.
//
// appSecrets: the app secret, or several with a space between; while it changes, the new one and the former one.
// kwaisign: the header. body: the bytes as they came. This format holds no time of the try, so only the id tells a
// repeat: keep the ids. Take the event by answering 200 with PlatformAnswer(event).
func VerifyPlatformNotification(appSecrets, kwaisign string, body []byte) (Event, error) {
	fits := false
	for _, secret := range strings.Split(appSecrets, " ") {
		if secret == "" {
			return nil, errors.New("expected an app secret")
		}
		sum := md5.Sum(append(append([]byte{}, body...), secret...))
		fits = hmac.Equal([]byte(hex.EncodeToString(sum[:])), []byte(kwaisign)) || fits
	}
	if !fits {
		return nil, NotGenuine("kwaisign: expected the MD5 of body and app secret")
	}
	event, err := parsed(body)
	if err == nil {
		event["id"] = event["message_id"]
	}
	return event, err
}

// PlatformAnswer is the body of the answer that takes an event of the platform's format. Minitill sends the event
// again after any other.
func PlatformAnswer(event Event) []byte {
	answer, _ := json.Marshal(map[string]any{"result": 1, "message_id": event["id"]})
	return answer
}

func parsed(body []byte) (Event, error) {
	event, decoder := Event{}, json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	return event, decoder.Decode(&event)
}

// Game is a tiny game: it buys an item for each credit, and ships what was paid.
//
// A real game keeps in its database what this one keeps in memory: an event before it is answered, and a number in
// the transaction that gives the item to the player.
type Game struct {
	client        *Client
	seen, shipped sync.Map
	slots         chan struct{}
}

// Take takes an event once. The work comes later, so that the answer need not wait for it.
func (game *Game) Take(event Event) {
	known := event["type"] == "wallet.credited" || event["type"] == "exchange.succeeded"
	if known && event["is_mock"] != true && isNew(&game.seen, event["id"]) {
		go game.work(event)
	}
}

func isNew(known *sync.Map, name any) bool {
	_, isKnown := known.LoadOrStore(name, true)
	return !isKnown
}

func (game *Game) work(event Event) {
	game.slots <- struct{}{}
	defer func() { <-game.slots }()
	data, _ := event["data"].(map[string]any)
	var err error
	if event["type"] == "wallet.credited" {
		err = game.buy(fmt.Sprint(event["id"]), fmt.Sprint(data["open_id"]))
	} else {
		err = game.ship(fmt.Sprint(data["biz_no"]))
	}
	if err != nil {
		// Nobody knows yet what became of it. To do all of it again is safe: its number is the same.
		log.Printf("%s: %v", event["id"], err)
		time.AfterFunc(again, func() { game.work(event) })
	}
}

// The number comes from the event, so an event that comes again after a restart buys nothing more.
func (game *Game) buy(id, openID string) error {
	bizNo := strings.ReplaceAll(id, "_", "")
	answer, err := game.client.Pay(orderOf(openID, "1", bizNo), true)
	if err == nil && *answer.Code == success {
		return game.ship(bizNo)
	}
	// Without success a try can still be on its way. To give the number up tells, and makes sure.
	answer, err = game.client.GiveUp(openID, bizNo)
	if err == nil && answer.Data["status"] == "paid" {
		return game.ship(bizNo)
	}
	return err
}

func (game *Game) ship(bizNo string) error {
	// The number is kept first: to ship twice is worse than to tell of it late.
	if !isNew(&game.shipped, bizNo) {
		return nil
	}
	fmt.Printf("{\"outcome\":\"shipped\",\"biz_no\":%q}\n", bizNo)
	return game.client.NoteShipment(bizNo)
}

// Play serves a game at this port of 127.0.0.1, or at a free one for 0, until the program ends.
func Play(client *Client, secrets, port string) error {
	for _, secret := range strings.Split(secrets, " ") {
		if _, err := keyOf(secret); err != nil {
			return err
		}
	}
	game := &Game{client: client, slots: make(chan struct{}, workers)}
	receive := func(writer http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		given := func(name string) string { return request.Header.Get("webhook-" + name) }
		event, err := VerifyNotification(secrets, given("id"), given("timestamp"), given("signature"), body, time.Now())
		if err != nil {
			writer.WriteHeader(http.StatusUnauthorized)
			return
		}
		game.Take(event)
		writer.WriteHeader(http.StatusNoContent)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		return err
	}
	fmt.Printf("{\"outcome\":\"playing\",\"port\":%d}\n", listener.Addr().(*net.TCPAddr).Port)
	return http.Serve(listener, http.HandlerFunc(receive))
}

func playerOf(openID string) url.Values {
	return url.Values{"open_id": {openID}, "zone_id": {"zone1_role1"}, "os": {"android"}, "user_ip": {"203.0.113.7"}}
}

func orderOf(openID, amount, bizNo string) url.Values {
	order := playerOf(openID)
	order.Set("amount", amount)
	order.Set("biz_no", bizNo)
	order.Set("product_name", "Double-up card")
	order.Set("product_desc", "For one match")
	order.Set("product_info", `[{"product_id":1001,"product_num":1,"product_type":0}]`)
	return order
}

// line is what the command prints of one call; see README.md.
type line map[string]any

func run(client *Client, command string, words []string, print func(line, error)) {
	fields := playerOf(words[0])
	each := func(numbers []string, change func(url.Values, bool) (*Answer, error), shown func(*Answer) line) {
		for _, number := range numbers {
			fields.Set("biz_no", number)
			answer, err := change(fields, command == "pay-again")
			print(shown(answer), err)
		}
	}
	switch command {
	case "pay", "pay-again":
		fields = orderOf(words[0], words[1], "")
		each(words[2:], client.Pay, paid)
	case "present":
		fields.Set("amount", words[1])
		each(words[2:], client.Present, done)
	case "cancel":
		fields.Set("amount", words[1])
		fields.Set("pay_biz_no", words[2])
		each(words[3:], client.Cancel, done)
	case "topup":
		fields.Set("product_id", words[1])
		each(words[2:], client.Topup, done)
	case "balance":
		answer, err := client.Balance(fields)
		print(done(answer), err)
	case "query":
		for _, number := range words[1:] {
			answer, err := client.Query(words[0], number, false)
			print(done(answer), err)
		}
	case "give-up":
		for _, number := range words[1:] {
			answer, err := client.GiveUp(words[0], number)
			print(done(answer), err)
		}
	case "report":
		print(line{"outcome": "done"}, client.Report(map[string]string{
			"open_id": words[0], "out_biz_order_no": words[1], "out_order_no": words[1],
			"order_create_time": words[2], "order_status": words[3], "order_path": words[4],
			"product_cover_img_id": words[5],
		}))
	case "upload":
		picture, err := os.ReadFile(words[0])
		if err != nil {
			log.Fatal(err)
		}
		id, err := client.Upload(picture)
		print(line{"outcome": "done", "imgId": id}, err)
	case "upload-url":
		id, err := client.UploadByURL(words[0])
		print(line{"outcome": "done", "imgId": id}, err)
	case "verify":
		now := time.Now()
		if len(words) > 3 {
			seconds, _ := strconv.ParseInt(words[3], 10, 64)
			now = time.Unix(seconds, 0)
		}
		event, err := VerifyNotification(os.Getenv("RECEIVER_SECRET"), words[0], words[1], words[2], input(), now)
		print(taken(event), err)
	case "verify-platform":
		event, err := VerifyPlatformNotification(client.AppSecret, words[0], input())
		printed := taken(event)
		printed["answer"] = json.RawMessage(PlatformAnswer(event))
		print(printed, err)
	case "play":
		log.Fatal(Play(client, os.Getenv("RECEIVER_SECRET"), words[0]))
	default:
		log.Fatal(command + ": no such command")
	}
}

func paid(answer *Answer) line {
	if *answer.Code == insufficient {
		// Not final: an earlier try can still be on its way.
		return line{"outcome": "insufficient", "final": !answer.Unsure, "tries": answer.Tries}
	}
	return line{"outcome": "paid", "replayed": answer.Replayed, "tries": answer.Tries,
		"freeBalance": answer.Data["freeBalance"], "chargeBalance": answer.Data["chargeBalance"]}
}

func done(answer *Answer) line {
	printed := line{"outcome": "done", "replayed": answer.Replayed, "tries": answer.Tries}
	for name, value := range answer.Data {
		printed[name] = value
	}
	return printed
}

func taken(event Event) line {
	printed := line{}
	for name, value := range event {
		printed[name] = value
	}
	printed["outcome"] = "done"
	return printed
}

func input() []byte {
	body, err := io.ReadAll(os.Stdin)
	if err != nil {
		log.Fatal(err)
	}
	return body
}

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func main() {
	timeout, _ := time.ParseDuration(setting("MINITILL_TIMEOUT_MS", "5000") + "ms")
	total, _ := time.ParseDuration(setting("MINITILL_TOTAL_MS", "60000") + "ms")
	client := &Client{Base: setting("MINITILL_BASE", "http://127.0.0.1:8080"), AppID: os.Getenv("APP_ID"),
		AppSecret: os.Getenv("APP_SECRET"), PayKey: os.Getenv("PAY_KEY"), Total: total}
	client.HTTP.Timeout = timeout
	// Minitill sends no redirects, and a token follows none.
	client.HTTP.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	status := 0
	run(client, os.Args[1], os.Args[2:], func(printed line, err error) {
		var refused *Refused
		var notGenuine NotGenuine
		if errors.As(err, &notGenuine) {
			printed = line{"outcome": "not_genuine", "msg": notGenuine}
		} else if errors.As(err, &refused) {
			printed = line{"outcome": "refused", "code": refused.Code, "msg": refused.Msg}
			if refused.Unknown {
				printed["outcome"] = "unknown"
			}
		} else if err != nil {
			log.Fatal(err)
		}
		if outcome := printed["outcome"]; outcome != "paid" && outcome != "done" {
			status = 1
		}
		text, _ := json.Marshal(printed)
		fmt.Println(string(text))
	})
	os.Exit(status)
}
