// Signs an exchange for Minitill and prints the form body to send.
//
// Try it: go run sign.go PAY_KEY 'open_id=player-1&app_id=mygame&product_name=Double-up+card'
package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log"
	"net/url"
	"os"
	"strings"
)

// The signed fields, in ASCII order of their names. access_token is not among them.
var signedFields = []string{"amount", "app_id", "biz_no", "extension", "open_id", "os", "pay_priority",
	"product_desc", "product_info", "product_name", "ts", "user_ip", "zone_id"}

// SignedBody signs the values as they are, leaving out empty ones; only the body is encoded.
func SignedBody(fields url.Values, payKey string) string {
	var text []string
	for _, name := range signedFields {
		if value := fields.Get(name); value != "" {
			text = append(text, name+"="+value)
		}
	}
	mac := hmac.New(sha256.New, []byte(payKey))
	mac.Write([]byte(strings.Join(text, "&")))
	fields.Set("sign", hex.EncodeToString(mac.Sum(nil)))
	return fields.Encode()
}

func main() {
	fields, err := url.ParseQuery(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(SignedBody(fields, os.Args[1]))
}
