package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDuration(t *testing.T) {
	tests := map[string]struct {
		reason string
		d      time.Duration
		want   string
	}{
		"fast":   {reason: "below a millisecond a digit counts", d: 840 * time.Microsecond, want: "0.8 ms"},
		"heal":   {reason: "heals are told in whole milliseconds", d: 6900 * time.Microsecond, want: "7 ms"},
		"slower": {reason: "up to a second", d: 984 * time.Millisecond, want: "984 ms"},
		"slow":   {reason: "what takes seconds is told in seconds", d: 5230 * time.Millisecond, want: "5.2 s"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, duration(tt.d), tt.reason)
		})
	}
}

func TestPrinter(t *testing.T) {
	show := func(p *printer) string {
		var b strings.Builder
		p.Out = &b
		p.Heading("Title")
		p.Command("kubectl get vr")
		p.Line("%d heals", 4)
		p.Aside("Event")
		return b.String()
	}
	require.Equal(t, "\nTitle\n  $ kubectl get vr\n  4 heals\n    Event\n", show(&printer{}))
	require.Equal(t, "\n\x1b[1mTitle\x1b[0m\n  \x1b[36m$ kubectl get vr\x1b[0m\n  4 heals\n    \x1b[2mEvent\x1b[0m\n",
		show(&printer{Colour: true}))
	require.NotPanics(t, func() { (&printer{}).Heading("nowhere") })
}

func TestNewPrinterOfAFile(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/out")
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // nothing was written
	p := newPrinter(f)
	require.False(t, p.Colour, "only a terminal gets colours")
	require.Zero(t, p.Width, "and only there lines are cut")
}

func TestPrinterTable(t *testing.T) {
	rows := [][]string{
		{"NAME", "HEALS", "MESSAGE"},
		{"web", "4", "reverted to 2"},
		{"custom-kind", "", "größer"},
	}
	tests := map[string]struct {
		reason string
		width  int
		want   string
	}{
		"any width": {
			reason: "what is not a terminal gets whole lines",
			want: "  NAME          HEALS   MESSAGE\n" +
				"  web           4       reverted to 2\n" +
				"  custom-kind           größer\n",
		},
		"narrow": {
			reason: "lines do not wrap in a terminal", width: 32,
			want: "  NAME          HEALS   MESSAGE\n" +
				"  web           4       reverte…\n" +
				"  custom-kind           größer\n",
		},
		"absurd": {
			reason: "a terminal that is too narrow for anything is not cut for", width: 10,
			want: "  NAME          HEALS   MESSAGE\n" +
				"  web           4       reverted to 2\n" +
				"  custom-kind           größer\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			(&printer{Out: &b, Width: tt.width}).table(rows)
			require.Equal(t, tt.want, b.String(), tt.reason)
		})
	}
}
