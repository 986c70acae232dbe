package display

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCredentials(t *testing.T) {
	for _, credential := range []string{"abc", "hunter2hunter2", `p"a<ss&\w/or d`, `"quoted"`, "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2ln-bmF0_dXJl", "pässwörd"} {
		c := NewCredentials(credential, "")
		quoted, err := json.Marshal(map[string]string{"input": credential})
		require.NoError(t, err)
		message, err := json.Marshal(map[string]string{"message": string(quoted)})
		require.NoError(t, err)
		for name, text := range map[string]string{
			"plain": credential, "JSON": string(quoted), "JSON in JSON": string(message), "query": url.QueryEscape(credential), "path": url.PathEscape(credential),
		} {
			withheld := c.Withhold("it was " + text + ", and other text")
			require.Contains(t, withheld, "***", "%s of %s", name, credential)
			require.NotContains(t, withheld, strings.Trim(credential, `"`), name)
			require.True(t, strings.HasPrefix(withheld, "it was ") && strings.HasSuffix(withheld, ", and other text"), withheld)
		}
		for _, before := range []string{"", "u", "us", "usr"} {
			for _, after := range []string{"", ":", ":x"} {
				for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
					encoded := encoding.EncodeToString([]byte(before + credential + after))
					withheld := c.Withhold(encoded)
					require.Contains(t, withheld, "***", encoded)
					require.Less(t, len(withheld)-len("***"), len(encoded)-8*len(credential)/6+2, "%s keeps one character of each end", withheld)
				}
			}
		}
	}
	require.Equal(t, "no", NewCredentials("no").Withhold("no"), "too short")
	require.Equal(t, "text", Credentials{}.Withhold("text"))
}
