package main

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	uberzap "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// TestBoundedLevel: at no level of the flag are the bodies of requests logged, which client-go logs at 8.
func TestBoundedLevel(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	logger := newLogger(zap.Options{Level: uberzap.NewAtomicLevelAt(-100)}, &log)
	logger.V(7).Info("seven")
	logger.V(8).Info("eight")
	logger.V(8).WithName("request").V(1).Info("nine")
	require.Contains(t, log.String(), "seven")
	require.NotContains(t, log.String(), "eight")
	require.NotContains(t, log.String(), "nine")
}

// TestLogIsGraphic: the log has no control character of a name or a message, in any encoding.
func TestLogIsGraphic(t *testing.T) {
	t.Parallel()
	const hostile = "evil\x1b]0;title\a\u009b31m\u202e\r\x7f"
	for _, development := range []bool{false, true} { // JSON, and text for users
		var log bytes.Buffer
		newLogger(zap.Options{Development: development}, &log).Info("reconciled "+hostile, "name", hostile)
		require.Contains(t, log.String(), "evil")
		for _, r := range log.String() {
			require.True(t, unicode.IsPrint(r) || r == '\n' || r == '\t', "%q in %q", r, log.String())
		}
	}
}

// TestStackTraces: an error is one line, without the stack of the controller that logs it, unless the flag asks for it.
func TestStackTraces(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		options zap.Options
		want    bool
	}{
		"production":  {"A refused object is no defect of the operator.", zap.Options{}, false},
		"asked for":   {"The flag is set.", zap.Options{StacktraceLevel: zapcore.ErrorLevel}, true},
		"development": {"The stack shows where the error is from.", zap.Options{Development: true}, true},
	}
	for name, tc := range cases {
		var log bytes.Buffer
		newLogger(tc.options, &log).Error(errors.New("refused"), "Reconciler error")
		require.Contains(t, log.String(), "refused")
		require.Equal(t, tc.want, strings.Contains(log.String(), "TestStackTraces"), "%s: %s", name, tc.reason)
	}
}

// TestLogLevel reads and changes the level of a log that runs.
func TestLogLevel(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason       string
		options      zap.Options
		open         bool
		method, body string
		code         int
		// debug reports that lines of the level debug are logged afterwards.
		debug bool
	}{
		"read":             {"The level is the default one.", zap.Options{}, false, http.MethodGet, "", http.StatusOK, false},
		"raised":           {"The form is the one of curl -d.", zap.Options{}, false, http.MethodPut, "level=debug", http.StatusOK, true},
		"lowered":          {"The flag had raised it.", zap.Options{Level: uberzap.NewAtomicLevelAt(-5)}, false, http.MethodPut, "level=info", http.StatusOK, false},
		"development":      {"The level of a flag that is not set.", zap.Options{Development: true}, false, http.MethodGet, "", http.StatusOK, true},
		"unknown":          {"A level that is none changes nothing.", zap.Options{}, false, http.MethodPut, "level=loud", http.StatusBadRequest, false},
		"without a client": {"Over HTTP any client could.", zap.Options{}, true, http.MethodPut, "level=debug", http.StatusForbidden, false},
		"read by any":      {"The level is no secret.", zap.Options{}, true, http.MethodGet, "", http.StatusOK, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			logs := newLogger(tt.options, &log)
			request := httptest.NewRequestWithContext(t.Context(), tt.method, logLevelPath, strings.NewReader(tt.body))
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			answer := httptest.NewRecorder()
			logs.handler(!tt.open).ServeHTTP(answer, request)
			require.Equal(t, tt.code, answer.Code, "%s: %s", tt.reason, answer.Body)
			require.Equal(t, tt.method == http.MethodPut && tt.code == http.StatusOK, strings.Contains(log.String(), "The log level was changed"))
			logs.V(1).Info("detail")
			require.Equal(t, tt.debug, strings.Contains(log.String(), "detail"), tt.reason)
		})
	}
}

// TestSuppressedLines: what is missing in the log because of its rate is counted.
func TestSuppressedLines(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	logs := newLogger(zap.Options{}, &log)
	const lines = 10 * equalLines
	for i := range lines {
		logs.Info("the same", "number", i)
	}
	for range equalLines {
		logs.Info("another one")
	}
	logged := strings.Count(log.String(), `"the same"`)
	require.Less(t, logged, lines)
	require.Equal(t, equalLines, strings.Count(log.String(), "another one"))
	require.InDelta(t, lines-logged, testutil.ToFloat64(logs.suppressed.WithLabelValues("rate")), 0)
}
