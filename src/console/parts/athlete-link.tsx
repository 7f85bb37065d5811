import { nameOfAthlete } from '../names.ts';
import { Link } from '../router.tsx';

/** An athlete's name and id, which lead to their page. */
export function AthleteLink({ id }: { id: string }) {
  const name = nameOfAthlete(id);
  return (
    <>
      <Link class="whole" to={`/athletes/${id}`}>
        {id}
      </Link>
      {name && <span class="below faint break">{name}</span>}
    </>
  );
}
