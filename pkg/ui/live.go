package ui

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	// mostTopics is how many topics a connection has at most, and mostConnections how many connections there are.
	mostTopics      = 64
	mostConnections = 64
	// heartbeat is the time between two writes to an idle connection.
	heartbeat = 10 * time.Second
	// spacing is the shortest time between two notifications of a connection.
	spacing = 50 * time.Millisecond
)

// live sends the topics that change as server-sent events: "changed" with the topic, and "cluster" with
// {"away": TIME or "", "live": BOOL, "waiting": KINDS}, whose live reports that no edit is missed from now on. Else edits of the kinds may be.
// Watches of the topics run while the connection is open.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	topics := r.URL.Query()["topic"]
	defer s.pages.Add(-1)
	if s.pages.Add(1) > mostConnections || len(topics) > mostTopics {
		s.fail(w, r, http.StatusTooManyRequests, errors.New("too many pages are open: close some of them"))
		return
	}
	page, end := s.hub.subscribe(topics)
	defer end()
	readies, endWatch := s.watch(topics)
	defer endWatch()
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	for {
		var text strings.Builder
		var ready <-chan struct{}
		if len(readies) > 0 {
			ready = readies[0]
		}
		select {
		case <-r.Context().Done():
			return
		case <-ready:
			if readies = readies[1:]; len(readies) > 0 {
				continue
			}
			text.WriteString(s.notification(topicCluster, true, nil))
		case <-time.After(heartbeat):
			text.WriteString(": alive\n\n")
			if len(readies) > 0 {
				text.WriteString(s.notification(topicCluster, false, s.observers.waiting(topics)))
			}
		case <-page.ready:
			for _, topic := range s.hub.take(page) {
				text.WriteString(s.notification(topic, len(readies) == 0, s.observers.waiting(topics)))
			}
		}
		_ = out.SetWriteDeadline(time.Now().Add(writeTimeout)) // a page that reads nothing is disconnected
		if _, err := fmt.Fprint(w, text.String()); err != nil || out.Flush() != nil {
			return
		}
		time.Sleep(spacing)
	}
}

// notification is the event about a topic. waiting are the kinds that are not live.
func (s *Server) notification(topic string, live bool, waiting []string) string {
	if topic != topicCluster {
		data, _ := json.Marshal(topic) // a string can be encoded
		return fmt.Sprintf("event: changed\ndata: %s\n\n", data)
	}
	away := ""
	if since := s.hub.away(); !since.IsZero() {
		away = since.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("event: cluster\ndata: {\"away\":%q,\"live\":%t,\"waiting\":%q}\n\n", away, live, strings.Join(waiting, ", "))
}

// watch starts the watches of the topics, and returns when it misses no edit, and a function that ends it.
func (s *Server) watch(topics []string) (readies []<-chan struct{}, end func()) {
	var ends []func()
	for _, topic := range topics {
		if strings.HasPrefix(topic, vidraResourcePrefix) || strings.HasPrefix(topic, objectPrefix) {
			ready, end := s.observers.open(topic)
			readies, ends = append(readies, ready), append(ends, end)
		}
	}
	ends = append(ends, s.feeds.use(vidraResourceFeed, s.store))
	return readies, func() {
		for _, end := range ends {
			end()
		}
	}
}
