// A remote worker for Gnomon: the standard library alone. The protocol is in
// docs/reference/worker-protocol.md.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Handler runs the tasks of one type; what it returns is the task's result. The context ends when the
// task is cancelled or its time is up, and with the session.
type Handler func(ctx context.Context, task *Task) (any, error)

// Never fails a task that is not to be tried again.
type Never struct{ error }

// Options of a worker.
type Options struct {
	URL, Key, Name string
	Slots          int
	Drain          time.Duration
	Handlers       map[string]Handler
}

type claim struct {
	TaskID string `json:"task_id"`
	Fence  int64  `json:"fence"`
}

// Task is a delivery, and what is known of its execution.
type Task struct {
	claim
	TaskType     string  `json:"task_type"`
	Timeout      float64 `json:"timeout_seconds"`
	StartWithin  float64 `json:"start_within_seconds"`
	Attempt      int
	Payload      json.RawMessage
	Asks         bool
	session      *session
	stop         context.CancelCauseFunc
	granted      chan bool // nil: it does not ask
	report, note map[string]any
}

type word struct { // about a claim
	claim
	Granted bool
	Reason  string
}

type answer struct {
	Epoch, Command              string
	Deliveries                  []*Task
	Acknowledged, Begun, Cancel []word
}

type refused struct { // by the API
	status int
	text   string
}

func (e refused) Error() string { return fmt.Sprintf("%d: %.300s", e.status, e.text) }

const most = 1000 // reports, questions and notes of progress in a poll

var errLate = errors.New("did not end in time")

type session struct {
	ID      string  `json:"session_id"`
	Secret  string  `json:"secret"`
	Epoch   string  `json:"epoch"`
	Lease   float64 `json:"lease_seconds"`
	Beat    float64 `json:"beat_seconds"`
	Poll    float64 `json:"poll_seconds"`
	o       Options
	news    chan struct{} // there is something to say
	end     context.Context
	lose    context.CancelCauseFunc
	mu      sync.Mutex // for all below
	held    map[claim]*Task
	seq     int64
	trusted time.Time // later it starts nothing
	drains  time.Time // until when; zero: it does not drain
}

// Run serves until ctx ends; then it ends what runs, reports it, and leaves.
func Run(ctx context.Context, o Options) error {
	for first, failures := true, 0; ctx.Err() == nil; failures++ {
		s := &session{o: o, held: map[claim]*Task{}, news: make(chan struct{}, 1), trusted: time.Now()}
		names := []string{}
		for name := range o.Handlers {
			names = append(names, name)
		}
		body := map[string]any{"name": o.Name, "handlers": names, "slots": o.Slots, "client": "gnomon-example-go/1"}
		var no refused
		if err := s.call(ctx, "POST", "", body, s, 10); errors.As(err, &no) && first && no.status < 500 && no.status != 429 && no.status != 409 {
			return err // the key or the options are wrong
		} else if err != nil {
			log.Printf("no session: %v", err)
			wait(ctx, pause(failures))
			continue
		}
		s.trusted = s.trusted.Add(seconds(s.Lease * 0.8)) // a fifth less than the gateway gives
		log.Printf("worker started at %s as %s", o.URL, o.Name)
		if err := s.serve(ctx); err == nil {
			return nil
		} else {
			log.Printf("opening a new session: %v", err)
		}
		first, failures = false, 0
	}
	return nil
}

// serve polls until the session is lost, which is an error, or has drained.
func (s *session) serve(ctx context.Context) error {
	s.end, s.lose = context.WithCancelCause(context.Background())
	defer s.lose(errors.New("the session has ended"))
	go s.beat()
	context.AfterFunc(ctx, s.drain)
	for failures := 0; s.end.Err() == nil; {
		select { // the next poll says it
		case <-s.news:
		default:
		}
		body, drained := s.message()
		if drained {
			return s.call(context.Background(), "DELETE", "/"+s.ID, nil, nil, 10)
		}
		polled := make(chan error, 1)
		var said answer
		asked := time.Now()
		go func() { polled <- s.call(s.end, "POST", "/"+s.ID+"/poll", body, &said, s.Poll+10) }()
		news := s.news
		if len(body["reports"].([]any))+len(body["begin"].([]any)) > 0 {
			news = nil // it is answered soon: what comes up meanwhile gathers for the next
		}
		select {
		case <-news: // the next poll voids this one, whatever it is answered
		case err := <-polled:
			if err != nil {
				if s.checkGone(err); failures%20 == 0 {
					log.Printf("the gateway cannot be polled: %v", err)
				}
				wait(s.end, pause(failures))
				failures++
			} else if failures = 0; !s.take(&said) && time.Since(asked) < 50*time.Millisecond {
				wait(s.end, 100*time.Millisecond) // it did not wait
			}
		case <-s.end.Done():
		}
	}
	return context.Cause(s.end)
}

func (s *session) checkGone(err error) {
	var no refused
	if errors.As(err, &no) && (no.status == 404 || no.status == 410) {
		s.lose(err)
	}
}

func (s *session) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.drains.IsZero() {
		s.drains = time.Now().Add(s.o.Drain)
	}
	s.say()
}

func (s *session) say() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// message is all that is to be said: the same again until it is answered; and whether it has drained.
func (s *session) message() (map[string]any, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	held, reports, begin, notes := []claim{}, []any{}, []any{}, []any{}
	for of, task := range s.held {
		held = append(held, of)
		if task.report != nil && len(reports) < most {
			reports = append(reports, task.report)
		} else if task.granted != nil && len(begin) < most {
			begin = append(begin, of)
		}
		if task.note != nil && len(notes) < most {
			notes = append(notes, task.note)
			task.note = nil
		}
	}
	slots := s.o.Slots - len(held)
	if slots < 0 || !s.drains.IsZero() || time.Now().After(s.trusted) {
		slots = 0
	}
	return map[string]any{
		"sequence": s.seq, "epoch": s.Epoch, "slots": slots, "wait_seconds": s.Poll,
		"held": held, "reports": reports, "begin": begin, "progress": notes,
	}, !s.drains.IsZero() && (len(held) == 0 || time.Now().After(s.drains))
}

// take does what an answer says; it gives whether that is anything new.
func (s *session) take(said *answer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := len(said.Acknowledged)+len(said.Begun)+len(said.Deliveries) > 0 || said.Epoch != s.Epoch
	s.Epoch = said.Epoch
	for _, each := range said.Acknowledged {
		delete(s.held, each.claim)
	}
	for _, each := range said.Begun {
		if task := s.held[each.claim]; task != nil && task.granted != nil {
			task.granted <- each.Granted
			task.granted = nil
		}
	}
	for _, each := range said.Cancel {
		if task := s.held[each.claim]; task != nil {
			task.stop(errors.New(each.Reason))
		}
	}
	for _, task := range said.Deliveries {
		if s.held[task.claim] == nil {
			var ctx context.Context
			ctx, task.stop = context.WithCancelCause(s.end)
			s.held[task.claim], task.session = task, s
			go task.execute(ctx)
		}
	}
	if said.Command == "drain" {
		go s.drain()
	}
	return news
}

func (t *Task) execute(ctx context.Context) {
	defer t.stop(nil)
	latest := time.Now().Add(seconds(t.StartWithin))
	if t.Asks && !t.consent(ctx, latest) || !t.session.mayStart(latest) || ctx.Err() != nil {
		t.became("released", map[string]any{})
		return
	}
	started := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, seconds(t.Timeout), errLate)
	defer cancel()
	result, err := t.call(ctx)
	report := map[string]any{"started_at": stamp(started), "finished_at": stamp(time.Now())}
	outcome := "succeeded"
	if cause := context.Cause(ctx); cause != nil && err != nil {
		outcome, report["error"] = "cancelled", cause.Error()
		if cause == errLate {
			outcome = "timed_out"
		}
	} else if err != nil {
		outcome, report["error"], report["retryable"] = "failed", err.Error(), !errors.As(err, &Never{})
	} else {
		report["result"] = result
	}
	t.became(outcome, report)
}

// call waits for the handler, unless the context ends: a handler that goes on is left alone.
func (t *Task) call(ctx context.Context) (any, error) {
	type end struct {
		result any
		err    error
	}
	ended := make(chan end, 1)
	go func() {
		defer func() {
			if broken := recover(); broken != nil {
				ended <- end{nil, fmt.Errorf("panic: %v", broken)}
			}
		}()
		result, err := t.session.o.Handlers[t.TaskType](ctx, t)
		ended <- end{result, err}
	}()
	select {
	case of := <-ended:
		return of.result, of.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Progress says how far the work has come, from 0 to 1.
func (t *Task) Progress(fraction float64, message string) {
	t.change(func() {
		t.note = map[string]any{"task_id": t.TaskID, "fence": t.Fence, "fraction": fraction, "message": message}
	})
}

func (t *Task) became(outcome string, report map[string]any) {
	report["task_id"], report["fence"], report["outcome"] = t.TaskID, t.Fence, outcome
	t.change(func() { t.report = report })
}

func (t *Task) change(how func()) {
	t.session.mu.Lock()
	how()
	t.session.mu.Unlock()
	t.session.say()
}

// consent asks whether it may begin.
func (t *Task) consent(ctx context.Context, latest time.Time) bool {
	granted := make(chan bool, 1)
	t.change(func() { t.granted = granted })
	select {
	case said := <-granted:
		return said
	case <-ctx.Done():
	case <-time.After(time.Until(latest)):
	}
	return false
}

func (s *session) mayStart(latest time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drains.IsZero() && time.Now().Before(s.trusted) && time.Now().Before(latest)
}

// beat renews the lease, whatever the handlers do: goroutines do not block each other.
func (s *session) beat() {
	for wait(s.end, seconds(s.Beat)); s.end.Err() == nil; wait(s.end, seconds(s.Beat)) {
		asked := time.Now()
		err := s.call(s.end, "POST", "/"+s.ID+"/beat", map[string]any{}, nil, s.Lease/4)
		if s.checkGone(err); err == nil {
			s.mu.Lock()
			s.trusted = asked.Add(seconds(s.Lease * 0.8))
			s.mu.Unlock()
		}
	}
}

func (s *session) call(ctx context.Context, method, path string, body, into any, limit float64) error {
	ctx, cancel := context.WithTimeout(ctx, seconds(limit))
	defer cancel()
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	url := strings.TrimRight(s.o.URL, "/") + "/api/v1/worker-sessions" + path
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(content))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("gnomon-session-secret", s.Secret)
	if s.o.Key != "" {
		request.Header.Set("Authorization", "Bearer "+s.o.Key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 32<<20))
	if err == nil && response.StatusCode >= 300 {
		err = refused{response.StatusCode, string(text)}
	}
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

// pause grows with failures, with jitter.
func pause(failures int) time.Duration {
	longest := min(5*time.Second, 100*time.Millisecond<<min(failures, 6))
	return longest/2 + time.Duration(rand.Int63n(int64(longest/2)+1))
}

func wait(ctx context.Context, long time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
}
