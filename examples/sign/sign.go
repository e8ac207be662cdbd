// Signs a call of the wallet for Minitill and prints the form body to send.
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
	"sort"
	"strings"
)

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

func main() {
	fields, err := url.ParseQuery(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(SignedBody(fields, os.Args[1]))
}
