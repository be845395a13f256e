package pulsar

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/graphmill/graphmill"
	"github.com/graphmill/graphmill/sources/setting"
)

// takeParams puts what authParams or authParamMap say where the settings of the
// same names are put.
func (r *rawSecurity) takeParams(named method, given given) error {
	name, text := "authParams", r.params.Reveal()
	switch {
	case given.Has("authParams") && given.Has("authParamMap"):
		return graphmill.Invalid(given.Field("authParamMap"), "authParamMap and authParams are given; one is needed")
	case given.Has("authParamMap"):
		name, text = "authParamMap", r.paramMap.Reveal()
	case !given.Has("authParams"):
		return nil
	}
	params, err := parseAuthParams(text, named == methodToken || named == "")
	if err != nil {
		return graphmill.Invalid(given.Field(name), "the value of %s cannot be used: %v", name, err)
	}
	hidden := given.Field(name) == "credentials"
	keys := make([]string, 0, len(params))
	for key := range params {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		own, ok := authParams[key]
		switch {
		case !ok:
			return graphmill.Invalid(given.Field(name), "%s holds a name that no login here has; they have token, file, userId, password, type, issuerUrl, privateKey, clientId, clientSecret, audience, scope, tlsCertFile and tlsKeyFile", name)
		case given.Has(own):
			return graphmill.Invalid(given.Field(own), "%s is given twice: it stands in %s too", own, name)
		}
		r.takeParam(key, setting.Value{Text: params[key], Hidden: hidden})
	}
	return nil
}

// authParams are the names in authParams, and the settings that they are.
var authParams = map[string]string{
	"token": "token", "file": "token", "userId": "userId", "username": "userId", "password": "password",
	"type": "type", "issuerUrl": "issuerUrl", "issuer_url": "issuerUrl", "privateKey": "privateKey", "private_key": "privateKey",
	"clientId": "clientId", "client_id": "clientId", "clientSecret": "clientSecret", "client_secret": "clientSecret",
	"audience": "audience", "scope": "scope",
	"tlsCertFile": "tlsCertificateFilePath", "tlsKeyFile": "tlsKeyFilePath",
}

func (r *rawSecurity) takeParam(key string, v setting.Value) {
	switch authParams[key] {
	case "token":
		if key == "file" {
			v.Text = tokenFile + v.Text
		}
		r.token = setting.Hide(v.Text)
	case "userId":
		r.user, r.userHidden = v.Text, v.Hidden
	case "password":
		r.password = setting.Hide(v.Text)
	case "issuerUrl":
		r.issuer = v.Text
	case "privateKey":
		r.privateKey = setting.Hide(v.Text)
	case "clientId":
		r.clientID = v.Text
	case "clientSecret":
		r.clientSecret = setting.Hide(v.Text)
	case "audience":
		r.audience = v.Text
	case "scope":
		r.scope = v.Text
	case "tlsCertificateFilePath":
		r.certFile = v.Text
	case "tlsKeyFilePath":
		r.keyFile = v.Text
	}
}

// parseAuthParams reads the forms that Pulsar's classes take: an object of JSON;
// name:value with commas between; and of a token, token:TEXT, file:///PATH, or the
// token itself. No error repeats any of it.
func parseAuthParams(text string, token bool) (map[string]string, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "{") {
		var params map[string]string
		if json.Unmarshal([]byte(text), &params) != nil {
			return nil, errors.New(`it is no object of JSON that holds texts, as {"name":"value"}`)
		}
		return params, nil
	}
	if token {
		switch {
		case strings.HasPrefix(text, "token:"):
			return map[string]string{"token": strings.TrimPrefix(text, "token:")}, nil
		case strings.HasPrefix(text, tokenFile):
			return map[string]string{"token": text}, nil
		case !strings.Contains(text, ":"):
			return map[string]string{"token": text}, nil
		}
	}
	params := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(pair, ":")
		if !ok {
			return nil, errors.New("it is name:value with commas between them, or an object of JSON")
		}
		params[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return params, nil
}
