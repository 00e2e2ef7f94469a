"""A Go code base of a harbour's booking service: files by path, some 220 symbols.

Most files are written out. What such services repeat for each of their records (a type, its table, its handlers) is
made from one pattern a layer, with the record's own columns.
"""

from __future__ import annotations

#: Record, its table's name and its columns as Go name, Go type and column.
RECORDS: dict[str, tuple[str, list[tuple[str, str, str]]]] = {
    "Berth": ("berths", [("Number", "int", "number"), ("LengthM", "float64", "length_m"), ("Pier", "string", "pier")]),
    "Vessel": (
        "vessels",
        [("Name", "string", "name"), ("CallSign", "string", "call_sign"), ("Draft", "float64", "draft")],
    ),
    "Booking": (
        "bookings",
        [("VesselID", "int64", "vessel_id"), ("Arrival", "time.Time", "arrival"), ("Nights", "int", "nights")],
    ),
    "Invoice": (
        "invoices",
        [("BookingID", "int64", "booking_id"), ("Cents", "int64", "cents"), ("PaidAt", "*time.Time", "paid_at")],
    ),
    "Skipper": (
        "skippers",
        [("Email", "string", "email"), ("Phone", "string", "phone"), ("Licence", "string", "licence")],
    ),
    "Tariff": ("tariffs", [("Season", "string", "season"), ("CentsPerMetre", "int64", "cents_per_metre")]),
    "Notice": (
        "notices",
        [("Subject", "string", "subject"), ("Body", "string", "body"), ("Until", "time.Time", "valid_until")],
    ),
}

RECORD = """package model

import "time"

// {name} is one row of {table}.
type {name} struct {{
	ID        int64
{fields}
	UpdatedAt time.Time
}}

// Validate reports the first missing value.
func (r {name}) Validate() error {{
{checks}
	return nil
}}

func (r {name}) String() string {{
	return fmt.Sprintf("{lower} %d", r.ID)
}}
"""

TABLE = """package store

// {name}Table reads and writes {table}.
type {name}Table struct {{
	db *sql.DB
}}

// Insert adds one {lower} and returns its key.
func (t *{name}Table) Insert(ctx context.Context, r model.{name}) (int64, error) {{
	var id int64
	err := t.db.QueryRowContext(ctx, "INSERT INTO {table} ({columns}) VALUES ({marks}) RETURNING id", {values}).Scan(&id)
	return id, err
}}

// Find returns the {lower} with a key, or ErrMissing.
func (t *{name}Table) Find(ctx context.Context, id int64) (model.{name}, error) {{
	row := t.db.QueryRowContext(ctx, "SELECT id, {columns}, updated_at FROM {table} WHERE id = $1", id)
	r, err := scan{name}(row)
	if errors.Is(err, sql.ErrNoRows) {{
		return r, ErrMissing
	}}
	return r, err
}}

// List returns a page of {table}, newest first.
func (t *{name}Table) List(ctx context.Context, page Page) ([]model.{name}, error) {{
	rows, err := t.db.QueryContext(ctx, "SELECT id, {columns}, updated_at FROM {table} ORDER BY id DESC LIMIT $1 OFFSET $2", page.Size, page.Offset())
	if err != nil {{
		return nil, err
	}}
	defer rows.Close()
	var found []model.{name}
	for rows.Next() {{
		r, err := scan{name}(rows)
		if err != nil {{
			return nil, err
		}}
		found = append(found, r)
	}}
	return found, rows.Err()
}}

// Delete removes a {lower}.
func (t *{name}Table) Delete(ctx context.Context, id int64) error {{
	_, err := t.db.ExecContext(ctx, "DELETE FROM {table} WHERE id = $1", id)
	return err
}}

func scan{name}(row scanner) (model.{name}, error) {{
	var r model.{name}
	err := row.Scan(&r.ID, {targets}, &r.UpdatedAt)
	return r, err
}}
"""

HANDLER = """package web

// {name}Handler serves /{table}.
type {name}Handler struct {{
	table *store.{name}Table
	log   *slog.Logger
}}

func (h *{name}Handler) create(w http.ResponseWriter, r *http.Request) {{
	var form model.{name}
	if err := decodeBody(r, &form); err != nil {{
		refuse(w, http.StatusBadRequest, err)
		return
	}}
	if err := form.Validate(); err != nil {{
		refuse(w, http.StatusUnprocessableEntity, err)
		return
	}}
	id, err := h.table.Insert(r.Context(), form)
	if err != nil {{
		h.log.Error("{lower} not stored", "error", err)
		refuse(w, http.StatusInternalServerError, err)
		return
	}}
	http.Redirect(w, r, fmt.Sprintf("/{table}/%d", id), http.StatusSeeOther)
}}

func (h *{name}Handler) show(w http.ResponseWriter, r *http.Request) {{
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil {{
		refuse(w, http.StatusNotFound, err)
		return
	}}
	found, err := h.table.Find(r.Context(), id)
	if errors.Is(err, store.ErrMissing) {{
		http.NotFound(w, r)
		return
	}}
	reply(w, found)
}}

func (h *{name}Handler) index(w http.ResponseWriter, r *http.Request) {{
	found, err := h.table.List(r.Context(), pageOf(r))
	if err != nil {{
		refuse(w, http.StatusInternalServerError, err)
		return
	}}
	reply(w, found)
}}
"""

WRITTEN: dict[str, str] = {
    "assistant/guard.go": """package assistant

func safeJoin(root, rel string) (string, error) {
	clean := filepath.Clean(filepath.Join(root, rel))
	if clean != root && !strings.HasPrefix(clean, root+string(os.PathSeparator)) {
		return "", errEscapes
	}
	return clean, nil
}
""",
    "assistant/git.go": """package assistant

func runGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}
""",
    "assistant/prompt.go": """package assistant

// Message is one turn of a conversation.
type Message struct {
	Role    string
	Content string
	Tokens  int
}

// trimHistory keeps the newest messages that fit the budget.
func trimHistory(messages []Message, budget int) []Message {
	used := 0
	for i := len(messages) - 1; i >= 0; i-- {
		used += messages[i].Tokens
		if used > budget {
			return messages[i+1:]
		}
	}
	return messages
}

func countTokens(text string) int {
	return (utf8.RuneCountInString(text) + 3) / 4
}

func systemPrompt(harbour string, now time.Time) string {
	return fmt.Sprintf("You answer skippers of %s. Today is %s.", harbour, now.Format(time.DateOnly))
}

// pickTool chooses the first tool whose name the model called.
func pickTool(tools []Tool, call string) (Tool, bool) {
	for _, t := range tools {
		if strings.EqualFold(t.Name, call) {
			return t, true
		}
	}
	return Tool{}, false
}
""",
    "assistant/tools.go": """package assistant

// Tool is something the model may call.
type Tool struct {
	Name   string
	Schema json.RawMessage
	Run    func(ctx context.Context, args json.RawMessage) (string, error)
}

func readNote(root, name string) (string, error) {
	full, err := safeJoin(root, name)
	if err != nil {
		return "", err
	}
	raw, err := os.ReadFile(full)
	return string(raw), err
}

func listNotes(root string) ([]string, error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func commitNote(dir, message string) error {
	if _, err := runGit(dir, "add", "-A"); err != nil {
		return err
	}
	_, err := runGit(dir, "commit", "-m", message)
	return err
}

func recentCommits(dir string, n int) ([]string, error) {
	out, err := runGit(dir, "log", "--oneline", "-n", strconv.Itoa(n))
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSpace(out), "\\n"), nil
}
""",
    "cmd/harbourd/main.go": """package main

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "harbourd:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	opts, err := parseFlags(args)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return serve(ctx, opts)
}

type options struct {
	addr    string
	dsn     string
	verbose bool
	workers int
}

func parseFlags(args []string) (options, error) {
	var o options
	set := flag.NewFlagSet("harbourd", flag.ContinueOnError)
	set.StringVar(&o.addr, "addr", ":8080", "address to listen on")
	set.StringVar(&o.dsn, "dsn", "", "database")
	set.BoolVar(&o.verbose, "v", false, "say more")
	set.IntVar(&o.workers, "workers", 4, "background workers")
	return o, set.Parse(args)
}

func serve(ctx context.Context, o options) error {
	db, err := store.Open(ctx, o.dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	server := &http.Server{Addr: o.addr, Handler: web.Routes(db), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Shutdown(context.Background())
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
""",
    "cmd/harbourctl/main.go": """package main

var commands = map[string]func([]string) error{}

func register(name string, f func([]string) error) {
	commands[name] = f
}

func usage(w io.Writer) {
	names := slices.Sorted(maps.Keys(commands))
	fmt.Fprintf(w, "usage: harbourctl %s\\n", strings.Join(names, "|"))
}

func dispatch(args []string) error {
	if len(args) == 0 {
		usage(os.Stderr)
		return errUsage
	}
	f, ok := commands[args[0]]
	if !ok {
		return fmt.Errorf("no command %q, did you mean %q?", args[0], closest(args[0]))
	}
	return f(args[1:])
}

// closest suggests the command with the smallest edit distance.
func closest(word string) string {
	best, least := "", 1 << 30
	for name := range commands {
		if d := distance(word, name); d < least {
			best, least = name, d
		}
	}
	return best
}

func distance(a, b string) int {
	previous := make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := previous[0]
		previous[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = previous[j]
			previous[j] = min(cost, previous[j]+1, previous[j-1]+1)
		}
	}
	return previous[len(b)]
}

func confirm(question string, in io.Reader) bool {
	fmt.Printf("%s [y/N] ", question)
	line, _ := bufio.NewReader(in).ReadString('\\n')
	return strings.HasPrefix(strings.ToLower(line), "y")
}
""",
    "config/config.go": """package config

// Config is everything an operator may set.
type Config struct {
	Listen   string        `toml:"listen"`
	Database string        `toml:"database"`
	Season   string        `toml:"season"`
	Timeout  time.Duration `toml:"timeout"`
	Mail     Mail          `toml:"mail"`
}

// Mail says how letters leave.
type Mail struct {
	Server string `toml:"server"`
	From   string `toml:"from"`
}

// Load reads a TOML document and fills in defaults.
func Load(r io.Reader) (Config, error) {
	c := Default()
	if _, err := toml.NewDecoder(r).Decode(&c); err != nil {
		return c, fmt.Errorf("configuration: %w", err)
	}
	return c, c.check()
}

// Default is what a new installation starts with.
func Default() Config {
	return Config{Listen: ":8080", Season: "summer", Timeout: 30 * time.Second}
}

func (c Config) check() error {
	if c.Database == "" {
		return errors.New("database is not set")
	}
	if c.Timeout <= 0 {
		return errors.New("timeout must be positive")
	}
	return nil
}

// FromEnv overrides values by HARBOUR_ variables.
func FromEnv(c Config, look func(string) (string, bool)) Config {
	if v, ok := look("HARBOUR_LISTEN"); ok {
		c.Listen = v
	}
	if v, ok := look("HARBOUR_DATABASE"); ok {
		c.Database = v
	}
	return c
}
""",
    "auth/password.go": """package auth

// Hash derives what is stored of a password.
func Hash(password string) (string, error) {
	salt := make([]byte, 16)
	if _, err := rand.Read(salt); err != nil {
		return "", err
	}
	sum := argon2.IDKey([]byte(password), salt, 1, 64*1024, 4, 32)
	return base64.RawStdEncoding.EncodeToString(salt) + "$" + base64.RawStdEncoding.EncodeToString(sum), nil
}

// Matches compares in constant time.
func Matches(stored, password string) bool {
	salt, sum, ok := strings.Cut(stored, "$")
	if !ok {
		return false
	}
	rawSalt, _ := base64.RawStdEncoding.DecodeString(salt)
	want, _ := base64.RawStdEncoding.DecodeString(sum)
	got := argon2.IDKey([]byte(password), rawSalt, 1, 64*1024, 4, 32)
	return subtle.ConstantTimeCompare(want, got) == 1
}

// strongEnough wants twelve characters of three kinds.
func strongEnough(password string) bool {
	kinds := 0
	for _, kind := range []func(rune) bool{unicode.IsUpper, unicode.IsLower, unicode.IsDigit, unicode.IsPunct} {
		if strings.IndexFunc(password, kind) >= 0 {
			kinds++
		}
	}
	return len(password) >= 12 && kinds >= 3
}
""",
    "auth/session.go": """package auth

// Session is a logged-in skipper.
type Session struct {
	ID      string
	Skipper int64
	Expires time.Time
}

// Sessions keeps who is logged in.
type Sessions struct {
	mu   sync.Mutex
	open map[string]Session
	ttl  time.Duration
}

// Start logs a skipper in.
func (s *Sessions) Start(skipper int64, now time.Time) Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := Session{ID: randomID(), Skipper: skipper, Expires: now.Add(s.ttl)}
	s.open[one.ID] = one
	return one
}

// Lookup returns a session that has not expired.
func (s *Sessions) Lookup(id string, now time.Time) (Session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.open[id]
	return one, ok && now.Before(one.Expires)
}

// End logs out.
func (s *Sessions) End(id string) {
	s.mu.Lock()
	delete(s.open, id)
	s.mu.Unlock()
}

func (s *Sessions) sweep(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.open)
	maps.DeleteFunc(s.open, func(_ string, one Session) bool { return now.After(one.Expires) })
	return before - len(s.open)
}

func randomID() string {
	raw := make([]byte, 24)
	_, _ = rand.Read(raw)
	return base64.RawURLEncoding.EncodeToString(raw)
}
""",
    "auth/role.go": """package auth

// Role orders what somebody may do.
type Role int

const (
	Guest Role = iota
	Mate
	Master
)

func parseRole(word string) (Role, error) {
	switch strings.ToLower(word) {
	case "guest":
		return Guest, nil
	case "mate":
		return Mate, nil
	case "master":
		return Master, nil
	}
	return Guest, fmt.Errorf("no role %q", word)
}

// Allows says whether a role includes another.
func (r Role) Allows(needed Role) bool { return r >= needed }

func bearer(r *http.Request) string {
	_, token, _ := strings.Cut(r.Header.Get("Authorization"), "Bearer ")
	return strings.TrimSpace(token)
}
""",
    "web/respond.go": """package web

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

func refuse(w http.ResponseWriter, status int, err error) {
	w.WriteHeader(status)
	reply(w, map[string]string{"error": err.Error()})
}

func decodeBody(r *http.Request, into any) error {
	decoder := json.NewDecoder(http.MaxBytesReader(nil, r.Body, 1<<20))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

func pageOf(r *http.Request) store.Page {
	number, _ := strconv.Atoi(r.URL.Query().Get("page"))
	return store.Page{Number: max(number, 1), Size: 50}
}

// etag names a version of a reply.
func etag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}
""",
    "web/middleware.go": """package web

// Middleware wraps a handler.
type Middleware func(http.Handler) http.Handler

func chain(h http.Handler, around ...Middleware) http.Handler {
	for i := len(around) - 1; i >= 0; i-- {
		h = around[i](h)
	}
	return h
}

func logRequests(log *slog.Logger) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			begun := time.Now()
			next.ServeHTTP(w, r)
			log.Info("served", "method", r.Method, "took", time.Since(begun))
		})
	}
}

func recoverPanics(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if v := recover(); v != nil {
				refuse(w, http.StatusInternalServerError, fmt.Errorf("%v", v))
			}
		}()
		next.ServeHTTP(w, r)
	})
}

func requireRole(sessions *auth.Sessions, needed auth.Role) Middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, ok := sessions.Lookup(cookie(r), time.Now()); !ok {
				http.Redirect(w, r, "/login", http.StatusFound)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

func cookie(r *http.Request) string {
	c, err := r.Cookie("harbour")
	if err != nil {
		return ""
	}
	return c.Value
}

func compress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			next.ServeHTTP(w, r)
			return
		}
		zipped := gzip.NewWriter(w)
		defer zipped.Close()
		w.Header().Set("Content-Encoding", "gzip")
		next.ServeHTTP(zippedWriter{w, zipped}, r)
	})
}

type zippedWriter struct {
	http.ResponseWriter
	zipped io.Writer
}

func (z zippedWriter) Write(b []byte) (int, error) { return z.zipped.Write(b) }
""",
    "web/limit.go": """package web

// Limiter is a token bucket a client.
type Limiter struct {
	mu      sync.Mutex
	buckets map[string]*bucket
	rate    float64
	burst   float64
}

type bucket struct {
	tokens float64
	last   time.Time
}

// Allow takes one token when there is one.
func (l *Limiter) Allow(client string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[client]
	if b == nil {
		b = &bucket{tokens: l.burst, last: now}
		l.buckets[client] = b
	}
	b.tokens = min(l.burst, b.tokens+now.Sub(b.last).Seconds()*l.rate)
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}

func clientOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
""",
    "web/templates.go": """package web

// Pages are the parsed templates.
type Pages struct {
	set *template.Template
}

func parsePages(files fs.FS) (*Pages, error) {
	set, err := template.New("").Funcs(helpers()).ParseFS(files, "templates/*.html")
	if err != nil {
		return nil, err
	}
	return &Pages{set}, nil
}

// Render writes a page, or the error page when it fails.
func (p *Pages) Render(w io.Writer, name string, data any) error {
	var buffer bytes.Buffer
	if err := p.set.ExecuteTemplate(&buffer, name, data); err != nil {
		return p.set.ExecuteTemplate(w, "error.html", err)
	}
	_, err := buffer.WriteTo(w)
	return err
}

func helpers() template.FuncMap {
	return template.FuncMap{"money": formatMoney, "metres": formatMetres, "ago": ago}
}

func formatMoney(cents int64) string {
	return fmt.Sprintf("%d.%02d", cents/100, cents%100)
}

func formatMetres(m float64) string {
	return strconv.FormatFloat(m, 'f', 1, 64) + " m"
}

func ago(then, now time.Time) string {
	switch d := now.Sub(then); {
	case d < time.Minute:
		return "just now"
	case d < time.Hour:
		return fmt.Sprintf("%d minutes ago", int(d.Minutes()))
	default:
		return fmt.Sprintf("%d hours ago", int(d.Hours()))
	}
}
""",
    "store/open.go": """package store

// ErrMissing says that no row has the key.
var ErrMissing = errors.New("no such row")

// Page is a slice of a list.
type Page struct {
	Number int
	Size   int
}

// Offset is the number of rows before the page.
func (p Page) Offset() int { return (p.Number - 1) * p.Size }

type scanner interface {
	Scan(dest ...any) error
}

// Open connects and waits until the server answers.
func Open(ctx context.Context, dsn string) (*sql.DB, error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(16)
	return db, retry(ctx, 5, db.PingContext)
}

func retry(ctx context.Context, times int, f func(context.Context) error) error {
	var err error
	for wait := 100 * time.Millisecond; times > 0; times, wait = times-1, wait*2 {
		if err = f(ctx); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
	return err
}

// inTransaction commits when f succeeds and rolls back when it does not.
func inTransaction(ctx context.Context, db *sql.DB, f func(*sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
""",
    "store/migrate.go": """package store

type migration struct {
	number int
	sql    string
}

// Migrate brings the schema to the newest version.
func Migrate(ctx context.Context, db *sql.DB, all []migration) error {
	at, err := schemaVersion(ctx, db)
	if err != nil {
		return err
	}
	for _, m := range pending(all, at) {
		if _, err := db.ExecContext(ctx, m.sql); err != nil {
			return fmt.Errorf("migration %d: %w", m.number, err)
		}
	}
	return nil
}

func pending(all []migration, at int) []migration {
	return slices.DeleteFunc(slices.Clone(all), func(m migration) bool { return m.number <= at })
}

func schemaVersion(ctx context.Context, db *sql.DB) (int, error) {
	var n int
	err := db.QueryRowContext(ctx, "SELECT coalesce(max(number), 0) FROM schema_migrations").Scan(&n)
	return n, err
}
""",
    "billing/price.go": """package billing

// Quote is the price of a stay.
type Quote struct {
	Nights   int
	Cents    int64
	Discount int64
}

// Price multiplies length by nights and takes the discount off.
func Price(lengthM float64, nights int, t model.Tariff) Quote {
	gross := int64(math.Ceil(lengthM)) * t.CentsPerMetre * int64(nights)
	off := discount(nights, gross)
	return Quote{Nights: nights, Cents: gross - off, Discount: off}
}

func discount(nights int, cents int64) int64 {
	switch {
	case nights >= 28:
		return cents / 4
	case nights >= 7:
		return cents / 10
	}
	return 0
}

func addVAT(cents int64, percent int) int64 {
	return cents + (cents*int64(percent)+50)/100
}

func splitEvenly(cents int64, among int) []int64 {
	shares := make([]int64, among)
	for i := range shares {
		shares[i] = cents / int64(among)
		if int64(i) < cents%int64(among) {
			shares[i]++
		}
	}
	return shares
}

func season(day time.Time) string {
	if m := day.Month(); m >= time.May && m <= time.September {
		return "summer"
	}
	return "winter"
}
""",
    "billing/iban.go": """package billing

var errIBAN = errors.New("not an IBAN")

// checkIBAN verifies the two check digits by ISO 7064.
func checkIBAN(text string) error {
	text = strings.ReplaceAll(text, " ", "")
	if len(text) < 15 || len(text) > 34 {
		return errIBAN
	}
	rest := 0
	for _, c := range text[4:] + text[:4] {
		switch {
		case c >= '0' && c <= '9':
			rest = (rest*10 + int(c-'0')) % 97
		case c >= 'A' && c <= 'Z':
			rest = (rest*100 + int(c-'A') + 10) % 97
		default:
			return errIBAN
		}
	}
	if rest != 1 {
		return errIBAN
	}
	return nil
}

func maskAccount(iban string) string {
	if len(iban) < 8 {
		return strings.Repeat("*", len(iban))
	}
	return iban[:4] + strings.Repeat("*", len(iban)-8) + iban[len(iban)-4:]
}
""",
    "billing/export.go": """package billing

// exportCSV writes invoices for the accountant.
func exportCSV(w io.Writer, invoices []model.Invoice) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{"number", "booking", "amount"}); err != nil {
		return err
	}
	for _, i := range invoices {
		if err := out.Write([]string{strconv.FormatInt(i.ID, 10), strconv.FormatInt(i.BookingID, 10), centsText(i.Cents)}); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func centsText(cents int64) string {
	return strconv.FormatFloat(float64(cents)/100, 'f', 2, 64)
}

func overdue(invoices []model.Invoice, now time.Time) []model.Invoice {
	return slices.DeleteFunc(slices.Clone(invoices), func(i model.Invoice) bool {
		return i.PaidAt != nil || now.Sub(i.UpdatedAt) < 30*24*time.Hour
	})
}

func nextNumber(last string) (string, error) {
	year, serial, ok := strings.Cut(last, "-")
	n, err := strconv.Atoi(serial)
	if !ok || err != nil {
		return "", fmt.Errorf("invoice number %q", last)
	}
	return fmt.Sprintf("%s-%05d", year, n+1), nil
}
""",
    "tide/tide.go": """package tide

// Level is the water at one moment.
type Level struct {
	At     time.Time
	Metres float64
}

// constituent is one sine of the tide.
type constituent struct {
	amplitude float64
	period    time.Duration
	phase     float64
}

// predict sums the constituents.
func predict(parts []constituent, at time.Time) float64 {
	sum := 0.0
	for _, c := range parts {
		turn := float64(at.UnixNano()) / float64(c.period)
		sum += c.amplitude * math.Cos(2*math.Pi*turn+c.phase)
	}
	return sum
}

func nextHighWater(levels []Level) (Level, bool) {
	for i := 1; i+1 < len(levels); i++ {
		if levels[i].Metres >= levels[i-1].Metres && levels[i].Metres > levels[i+1].Metres {
			return levels[i], true
		}
	}
	return Level{}, false
}

func interpolate(a, b Level, at time.Time) float64 {
	share := float64(at.Sub(a.At)) / float64(b.At.Sub(a.At))
	return a.Metres + share*(b.Metres-a.Metres)
}

// deepEnough says whether a draft passes the bar.
func deepEnough(chartDepth, level, draft float64) bool {
	const underKeel = 0.5
	return chartDepth+level >= draft+underKeel
}
""",
    "geo/geo.go": """package geo

// Position is in degrees.
type Position struct {
	Lat, Lon float64
}

const earthRadiusM = 6371e3

// Metres between two positions, by the haversine formula.
func Metres(a, b Position) float64 {
	dLat, dLon := radians(b.Lat-a.Lat), radians(b.Lon-a.Lon)
	h := math.Pow(math.Sin(dLat/2), 2) + math.Cos(radians(a.Lat))*math.Cos(radians(b.Lat))*math.Pow(math.Sin(dLon/2), 2)
	return 2 * earthRadiusM * math.Asin(math.Sqrt(h))
}

// Bearing is the course from one position to another, 0 to 360.
func Bearing(a, b Position) float64 {
	y := math.Sin(radians(b.Lon-a.Lon)) * math.Cos(radians(b.Lat))
	x := math.Cos(radians(a.Lat))*math.Sin(radians(b.Lat)) - math.Sin(radians(a.Lat))*math.Cos(radians(b.Lat))*math.Cos(radians(b.Lon-a.Lon))
	return math.Mod(math.Atan2(y, x)*180/math.Pi+360, 360)
}

func radians(degrees float64) float64 { return degrees * math.Pi / 180 }

// inside tells whether a position lies in a polygon, by counting crossings.
func inside(p Position, polygon []Position) bool {
	odd := false
	for i, j := 0, len(polygon)-1; i < len(polygon); j, i = i, i+1 {
		a, b := polygon[i], polygon[j]
		if (a.Lat > p.Lat) != (b.Lat > p.Lat) && p.Lon < (b.Lon-a.Lon)*(p.Lat-a.Lat)/(b.Lat-a.Lat)+a.Lon {
			odd = !odd
		}
	}
	return odd
}
""",
    "ais/decode.go": """package ais

// Report is a ship's position message.
type Report struct {
	MMSI  uint32
	Speed float64
	At    geo.Position
}

// checksum is the exclusive or of a sentence between ! and *.
func checksum(sentence string) byte {
	var sum byte
	for i := 1; i < len(sentence) && sentence[i] != '*'; i++ {
		sum ^= sentence[i]
	}
	return sum
}

// unarmour turns six-bit characters into bits.
func unarmour(payload string) []bool {
	var bits []bool
	for _, c := range payload {
		v := byte(c) - 48
		if v > 40 {
			v -= 8
		}
		for shift := 5; shift >= 0; shift-- {
			bits = append(bits, v>>shift&1 == 1)
		}
	}
	return bits
}

func number(bits []bool, from, length int) uint32 {
	var n uint32
	for _, b := range bits[from : from+length] {
		n <<= 1
		if b {
			n |= 1
		}
	}
	return n
}

func parseReport(bits []bool) (Report, error) {
	if len(bits) < 168 {
		return Report{}, io.ErrUnexpectedEOF
	}
	return Report{MMSI: number(bits, 8, 30), Speed: float64(number(bits, 50, 10)) / 10}, nil
}
""",
    "queue/queue.go": """package queue

// Job is work for later.
type Job struct {
	Kind     string
	Payload  json.RawMessage
	Attempts int
	RunAt    time.Time
}

// Queue hands jobs to workers.
type Queue struct {
	jobs     chan Job
	handlers map[string]Handler
	wg       sync.WaitGroup
}

// Handler carries a job out.
type Handler func(ctx context.Context, payload json.RawMessage) error

// Enqueue adds a job unless the queue is full.
func (q *Queue) Enqueue(j Job) bool {
	select {
	case q.jobs <- j:
		return true
	default:
		return false
	}
}

// Work runs n workers until the context ends.
func (q *Queue) Work(ctx context.Context, n int) {
	for range n {
		q.wg.Add(1)
		go func() {
			defer q.wg.Done()
			q.loop(ctx)
		}()
	}
	q.wg.Wait()
}

func (q *Queue) loop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-q.jobs:
			if err := q.handlers[j.Kind](ctx, j.Payload); err != nil {
				q.again(j)
			}
		}
	}
}

func (q *Queue) again(j Job) {
	j.Attempts++
	j.RunAt = time.Now().Add(backoff(j.Attempts))
	if j.Attempts < 8 {
		q.Enqueue(j)
	}
}

func backoff(attempt int) time.Duration {
	return min(time.Hour, time.Second<<attempt)
}
""",
    "cache/cache.go": """package cache

// Cache forgets what was used longest ago.
type Cache[K comparable, V any] struct {
	mu    sync.Mutex
	limit int
	order *list.List
	items map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// Get returns a value and moves it to the front.
func (c *Cache[K, V]) Get(key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.items[key]; ok {
		c.order.MoveToFront(e)
		return e.Value.(entry[K, V]).value, true
	}
	var zero V
	return zero, false
}

// Put stores a value and drops the oldest when there are too many.
func (c *Cache[K, V]) Put(key K, value V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.items[key] = c.order.PushFront(entry[K, V]{key, value})
	if c.order.Len() > c.limit {
		c.evict()
	}
}

func (c *Cache[K, V]) evict() {
	last := c.order.Back()
	c.order.Remove(last)
	delete(c.items, last.Value.(entry[K, V]).key)
}
""",
    "mail/mail.go": """package mail

// Letter is one message to a skipper.
type Letter struct {
	To      string
	Subject string
	Body    string
}

func (l Letter) bytes(from string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "From: %s\\r\\nTo: %s\\r\\nSubject: %s\\r\\n\\r\\n%s", from, l.To, mime.QEncoding.Encode("utf-8", l.Subject), l.Body)
	return b.Bytes()
}

// Send hands a letter to the relay.
func Send(relay, from string, l Letter) error {
	if err := checkAddress(l.To); err != nil {
		return err
	}
	return smtp.SendMail(relay, nil, from, []string{l.To}, l.bytes(from))
}

func checkAddress(address string) error {
	at := strings.LastIndexByte(address, '@')
	if at < 1 || at == len(address)-1 || strings.ContainsAny(address, " \\r\\n") {
		return fmt.Errorf("not an address: %q", address)
	}
	return nil
}

func reminder(v model.Vessel, b model.Booking) Letter {
	return Letter{Subject: "Your berth is waiting", Body: fmt.Sprintf("%s is expected on %s.", v.Name, b.Arrival.Format("2 January"))}
}
""",
    "search/text.go": """package search

// tokens are the lower-case words of a text.
func tokens(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })
}

// Index finds notices by word.
type Index struct {
	postings map[string][]int
	lengths  []int
}

// Add indexes a document and returns its number.
func (x *Index) Add(text string) int {
	n := len(x.lengths)
	words := tokens(text)
	for _, w := range words {
		x.postings[w] = append(x.postings[w], n)
	}
	x.lengths = append(x.lengths, len(words))
	return n
}

func (x *Index) score(query string) map[int]float64 {
	scores := map[int]float64{}
	for _, w := range tokens(query) {
		rarity := math.Log(float64(len(x.lengths)+1) / float64(len(x.postings[w])+1))
		for _, n := range x.postings[w] {
			scores[n] += rarity / math.Sqrt(float64(x.lengths[n]))
		}
	}
	return scores
}

func snippet(text, word string, around int) string {
	at := strings.Index(strings.ToLower(text), word)
	if at < 0 {
		return text[:min(len(text), 2*around)]
	}
	return text[max(0, at-around):min(len(text), at+around)]
}
""",
    "upload/upload.go": """package upload

// Stored is a document that a skipper handed in.
type Stored struct {
	Key  string
	Size int64
	Type string
}

// Save copies a form's part below the uploads folder.
func Save(folder string, part *multipart.Part) (Stored, error) {
	key := time.Now().Format("20060102") + "-" + slug(part.FileName())
	out, err := os.Create(filepath.Join(folder, key))
	if err != nil {
		return Stored{}, err
	}
	defer out.Close()
	n, err := io.Copy(out, io.LimitReader(part, 10<<20))
	return Stored{Key: key, Size: n, Type: part.Header.Get("Content-Type")}, err
}

// slug leaves letters, digits and dots.
func slug(name string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) || c == '.' {
			return c
		}
		return '-'
	}, name)
}

func sniff(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("%PDF-")):
		return "application/pdf"
	case bytes.HasPrefix(head, []byte("\\x89PNG")):
		return "image/png"
	}
	return http.DetectContentType(head)
}

func removeOlderThan(folder string, age time.Duration) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && time.Since(info.ModTime()) > age {
			err = os.Remove(filepath.Join(folder, e.Name()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
""",
    "logfile/rotate.go": """package logfile

// Rotating is a log that starts a new file each day.
type Rotating struct {
	mu     sync.Mutex
	folder string
	day    string
	out    *os.File
}

// Write appends a line, to a new file after midnight.
func (r *Rotating) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if today := time.Now().Format(time.DateOnly); today != r.day {
		if err := r.turn(today); err != nil {
			return 0, err
		}
	}
	return r.out.Write(line)
}

func (r *Rotating) turn(day string) error {
	if r.out != nil {
		_ = r.out.Close()
	}
	out, err := os.OpenFile(filepath.Join(r.folder, day+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	r.out, r.day = out, day
	return err
}

func tail(r io.ReadSeeker, lines int) ([]string, error) {
	scan := bufio.NewScanner(r)
	var last []string
	for scan.Scan() {
		last = append(last, scan.Text())
		if len(last) > lines {
			last = last[1:]
		}
	}
	return last, scan.Err()
}
""",
    "metrics/metrics.go": """package metrics

// Counter only grows.
type Counter struct{ n atomic.Int64 }

// Add increases the counter.
func (c *Counter) Add(n int64) { c.n.Add(n) }

// Histogram counts durations in doubling buckets.
type Histogram struct {
	buckets [24]atomic.Int64
}

// Observe puts a duration into its bucket.
func (h *Histogram) Observe(d time.Duration) {
	h.buckets[min(bits.Len64(uint64(d/time.Microsecond)), 23)].Add(1)
}

// quantile is the upper end of the bucket that holds a share of all observations.
func (h *Histogram) quantile(share float64) time.Duration {
	var total, seen int64
	for i := range h.buckets {
		total += h.buckets[i].Load()
	}
	for i := range h.buckets {
		seen += h.buckets[i].Load()
		if float64(seen) >= share*float64(total) {
			return time.Microsecond << i
		}
	}
	return 0
}

func expose(w io.Writer, counters map[string]*Counter) {
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		fmt.Fprintf(w, "harbour_%s %d\\n", name, counters[name].n.Load())
	}
}
""",
    "schedule/conflict.go": """package schedule

// Stay is a span of nights at a berth.
type Stay struct {
	Berth    int64
	From, To time.Time
}

// overlaps tells whether two stays want the same berth at once.
func overlaps(a, b Stay) bool {
	return a.Berth == b.Berth && a.From.Before(b.To) && b.From.Before(a.To)
}

// firstFree is the first berth long enough that nobody has.
func firstFree(berths []model.Berth, taken []Stay, wanted Stay, lengthM float64) (model.Berth, bool) {
	for _, berth := range berths {
		wanted.Berth = berth.ID
		if berth.LengthM >= lengthM && !slices.ContainsFunc(taken, func(s Stay) bool { return overlaps(s, wanted) }) {
			return berth, true
		}
	}
	return model.Berth{}, false
}

// occupancy is the share of berth nights that are sold.
func occupancy(stays []Stay, berths, nights int) float64 {
	sold := 0
	for _, s := range stays {
		sold += int(s.To.Sub(s.From).Hours() / 24)
	}
	return float64(sold) / float64(berths*nights)
}

func mergeStays(stays []Stay) []Stay {
	slices.SortFunc(stays, func(a, b Stay) int { return a.From.Compare(b.From) })
	var merged []Stay
	for _, s := range stays {
		if n := len(merged); n > 0 && !s.From.After(merged[n-1].To) {
			merged[n-1].To = s.To
			continue
		}
		merged = append(merged, s)
	}
	return merged
}
""",
}


def go_code() -> dict[str, str]:
    """The whole code base, ``safeJoin`` and ``runGit`` in it."""
    files = dict(WRITTEN)
    for name, (table, columns) in RECORDS.items():
        lower = name.lower()
        values = {
            "name": name,
            "table": table,
            "lower": lower,
            "fields": "\n".join(f"\t{field} {kind}" for field, kind, _ in columns),
            "checks": "\n".join(
                f'\tif r.{field} == "" {{\n\t\treturn errors.New("{column} is empty")\n\t}}'
                for field, kind, column in columns
                if kind == "string"
            )
            or "\tif r.ID < 0 {\n\t\treturn errNegative\n\t}",
            "columns": ", ".join(column for _, _, column in columns),
            "marks": ", ".join(f"${place}" for place in range(1, len(columns) + 1)),
            "values": ", ".join(f"r.{field}" for field, _, _ in columns),
            "targets": ", ".join(f"&r.{field}" for field, _, _ in columns),
        }
        files[f"model/{lower}.go"] = RECORD.format(**values)
        files[f"store/{lower}.go"] = TABLE.format(**values)
        files[f"web/{lower}.go"] = HANDLER.format(**values)
    return files
