package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"sort"
	"strings"
)

var signed = strings.Fields("open_id app_id zone_id os ts user_ip amount pay_priority biz_no " +
	"product_name product_info product_desc extension")

// SignedBody gives the form body of an exchange: fields as they are, with sign.
func SignedBody(payKey string, fields map[string]string) string {
	var pairs []string
	form := url.Values{}
	for _, name := range signed {
		if fields[name] != "" {
			pairs = append(pairs, name+"="+fields[name])
		}
	}
	for name, value := range fields {
		form.Set(name, value)
	}
	sort.Strings(pairs)
	mac := hmac.New(sha256.New, []byte(payKey))
	mac.Write([]byte(strings.Join(pairs, "&")))
	form.Set("sign", hex.EncodeToString(mac.Sum(nil)))
	return form.Encode()
}
