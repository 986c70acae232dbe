package display

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

// minCredential is the length of the shortest credential that is found in text: a shorter one is in many texts by chance.
const minCredential = 3

// Credentials finds credentials in the text of a server, which may repeat a request. The zero value finds none.
type Credentials struct {
	replacer *strings.Replacer
	// Longest is the length of the longest form of a credential.
	Longest int
}

// NewCredentials returns the credentials of a request. They are found as they are, and as JSON, URLs and base64 have them, also as a part of a longer text.
func NewCredentials(all ...string) (c Credentials) {
	var forms []string
	for _, credential := range all {
		if len(credential) < minCredential {
			continue
		}
		forms = append(forms, credential, url.QueryEscape(credential), url.PathEscape(credential))
		for _, html := range []bool{false, true} {
			once := inJSON(credential, html)
			forms = append(forms, once, inJSON(once, html))
		}
		for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			for before := range 3 { // bytes of the same group
				encoded := encoding.EncodeToString(append(make([]byte, before), credential...))
				forms = append(forms, encoded[(8*before+5)/6:8*(before+len(credential))/6])
			}
		}
	}
	slices.SortFunc(forms, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	forms = slices.Compact(forms)
	if len(forms) == 0 {
		return c
	}
	var pairs []string
	for _, form := range forms {
		pairs = append(pairs, form, "***")
	}
	return Credentials{replacer: strings.NewReplacer(pairs...), Longest: len(forms[0])}
}

// Withhold returns a text without the credentials.
func (c Credentials) Withhold(text string) string {
	if c.replacer == nil {
		return text
	}
	return c.replacer.Replace(text)
}

// inJSON returns a text as a string of JSON has it, without the quotes. html is whether characters of HTML are escaped.
func inJSON(text string, html bool) string {
	encoded := &bytes.Buffer{}
	encoder := json.NewEncoder(encoded)
	encoder.SetEscapeHTML(html)
	_ = encoder.Encode(text) // a string has an encoding
	quoted := strings.TrimSpace(encoded.String())
	return quoted[1 : len(quoted)-1]
}
